-- Changes the shared state of a pending checkpoint, all of the change or nothing of it.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   checkpoint id
-- ARGV[3]   "put" replaces the named keys, "delete" removes exactly one, "clear" removes all
-- ARGV[4]   "1" checks the conditions against the one entry, "0" against the state as a whole
-- ARGV[5]   "1" demands that the resource does not exist
-- ARGV[6]   how many keys there may be
-- ARGV[7]   how many restore bytes there may be
-- ARGV[8]   token of the import that makes the checkpoint, "" for a worker (prelude_import.lua)
-- ARGV[9]   n, how many tags follow, one of which the resource must have; "*" is any
-- ARGV[10]… n tags, then for each entry: key, length of its restore line without the value,
--           value ("" with delete)
--
-- Body     view, "1" when a single put made its key else "0", tag of the written entry
--          ("" unless a single put). Nothing for an import
-- Refusals job_not_found; checkpoint_not_found, checkpoint_deleted, checkpoint_expired,
--          checkpoint_aborted, checkpoint_completed: current id or "", latest id or "";
--          precondition_failed; key_not_found: id, key; limit_exceeded: keys there would be;
--          too_large: bytes there would be
--
-- Second run: not harmless under a condition, and therefore never sent twice but by an import, which has none.

local id, op, single, must_not_exist = ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5] == '1'
local most_keys, most_bytes, tags = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[9])
local first = 10 + tags
local state = checkpoint_key(id, 'state')

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = subject(id, ARGV[8])
if not rec then
  return refuse(absent(job, id, true))
end
settle(id, rec)
if rec.status ~= 'pending' then
  return refuse(ended_refusal(rec))
end
local had = redis.call('HMGET', base .. id, 'sentries', 'sbytes', 'srev')
local keys, bytes, revision = tonumber(had[1] or '0'), tonumber(had[2] or '0'), tonumber(had[3] or '0')

-- The state as a whole always exists; it may be empty.
local tag
if single then
  local value = redis.call('HGET', state, ARGV[first])
  tag = value and redis.sha1hex(value)
else
  tag = id .. '-s' .. integer(revision)
end
if not met(tag, must_not_exist, 10, tags) then
  return refuse({ 'precondition_failed' })
end

-- Sizes are known before anything is written. A value is never empty, so a length of 0
-- is an absent key.
local new_keys, new_bytes = keys, bytes
local made = '0'
if op == 'clear' then
  new_keys, new_bytes = 0, 0
else
  for i = first, #ARGV, 3 do
    local frame, length = tonumber(ARGV[i + 1]), #ARGV[i + 2]
    local before = redis.call('HSTRLEN', state, ARGV[i])
    if op == 'delete' then
      if before == 0 then
        return refuse({ 'key_not_found', id, ARGV[i] })
      end
      new_keys, new_bytes = new_keys - 1, new_bytes - frame - before
    elseif before == 0 then
      new_keys, new_bytes, made = new_keys + 1, new_bytes + frame + length, '1'
    else
      new_bytes = new_bytes + length - before
    end
  end
end
if op == 'put' and new_keys > most_keys then
  return refuse({ 'limit_exceeded', integer(new_keys) })
end
if op == 'put' and new_bytes > most_bytes then
  return refuse({ 'too_large', integer(new_bytes) })
end

-- A put begins with HSET, which a full Redis refuses before anything changed; delete and
-- clear begin with writes that it takes.
if op == 'clear' then
  redis.call('UNLINK', state)
elseif op == 'delete' then
  redis.call('HDEL', state, ARGV[first])
else
  -- Lua cannot hand over more than a few thousand arguments at once.
  local pairs_of = {}
  for i = first, #ARGV, 3 do
    pairs_of[#pairs_of + 1] = ARGV[i]
    pairs_of[#pairs_of + 1] = ARGV[i + 2]
    if #pairs_of == 2000 then
      redis.call('HSET', state, unpack(pairs_of))
      pairs_of = {}
    end
  end
  if #pairs_of > 0 then
    redis.call('HSET', state, unpack(pairs_of))
  end
end
redis.call('HSET', base .. id, 'sentries', integer(new_keys), 'sbytes', integer(new_bytes), 'srev', integer(revision + 1),
  'entries', integer(rec.entries + new_keys - keys), 'bytes', integer(rec.bytes + new_bytes - bytes))

if ARGV[8] ~= '' then
  return answer('ok', {})
end
local written = ''
if single and op == 'put' then
  written = redis.sha1hex(ARGV[first + 2])
end
return answer('ok', { view(id), made, written })
