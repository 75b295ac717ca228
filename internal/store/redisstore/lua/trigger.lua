-- Makes a pending checkpoint, or finds the one that the same Idempotency-Key, or the same
-- call, made before.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   name of the record of repeats, "<verb>:<hash>"
-- ARGV[3]   its time to live (ms)
-- ARGV[4]   token of the call
-- ARGV[5]   fingerprint of the request
-- ARGV[6]   highest id of the job that the caller has seen, "-1" = none
-- ARGV[7]   "1" when the caller has put the job into the list of jobs
-- ARGV[8]   required acknowledgements
-- ARGV[9]   timeout (ms, "0" = never)
-- ARGV[10]  how many may be pending
-- ARGV[11]  labels (JSON, "" = none)
-- ARGV[12]  description
-- ARGV[13]  "1" = pinned
-- ARGV[14]  number of named tasks, "0" = any task may acknowledge
-- ARGV[15…] their names, at most 1000; none when they are staged under the token
--
-- Body      view, "1" if repeated by another call
-- Other words
--           register: the job is new; put it into the list of jobs, then call again
--           again: 1000 ids in a row were taken by foreign keys; call again
--           restage: the staged names are gone; stage them again, then call again
--           exhausted: the job has no ids left
-- Refusals  too_many_pending: pending, ms until the first deadline or "0"
--           idempotency_key_reused
--           idempotency_target_deleted: id
-- Second run: finds the record of repeats, and in it its own token.

local repeat_name, repeat_ttl, token, fingerprint = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local floor, registered, required, timeout = tonumber(ARGV[6]), ARGV[7] == '1', ARGV[8], tonumber(ARGV[9])
local cap, pinned, named = tonumber(ARGV[10]), ARGV[13] == '1', tonumber(ARGV[14])
local staged = named > 0 and #ARGV < 15

local function drop_staged()
  if staged then
    redis.call('UNLINK', base .. 'tasks:' .. token, base .. 'missing:' .. token)
    redis.call('ZREM', base .. 'stages', token)
  end
end

local known = recall(repeat_name)
if known then
  if known.token ~= token then
    drop_staged()
  end
  if known.fingerprint ~= fingerprint then
    return refuse({ 'idempotency_key_reused' })
  end
  local made = view(known.id)
  if not made then
    return refuse({ 'idempotency_target_deleted', known.id })
  end
  refresh(repeat_name, repeat_ttl)
  return answer('ok', { made, known.token == token and '0' or '1' })
end

local job = find_job()
if not job then
  if not registered then
    return answer('register', {})
  end
  job = { next = 0, epoch = 0 }
end

-- The server that lost what it had confirmed shows as another server than the one that
-- gave the last id, or as one that knows less than a caller has seen. Ids given since
-- the last look of any caller are then passed over by a wide margin.
local function first_id(stored)
  local info = redis.pcall('INFO', 'server')
  local running = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  local id = math.max(job.next, floor + 1)
  local behind = floor >= job.next
  if stored and running ~= '' and stored ~= running or behind and not (stored and stored == running) then
    id = id + 1000
  end
  return id, running
end

local function taken(id)
  return redis.call('EXISTS', base .. id, checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'), checkpoint_key(id, 'parts'),
    checkpoint_key(id, 'staged'), checkpoint_key(id, 'state'), checkpoint_key(id, 'leases')) > 0
end

local pending = redis.call('ZCARD', base .. 'pending') - redis.call('ZCOUNT', base .. 'deadlines', '-inf', '(' .. integer(now))
if pending >= cap then
  local first = redis.call('ZRANGEBYSCORE', base .. 'deadlines', integer(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local wait = first[2] and tonumber(first[2]) - now or 0
  expire_overdue(100)
  drop_staged()
  return refuse({ 'too_many_pending', integer(pending), integer(wait) })
end

local had = redis.call('HMGET', base .. 'job', 'runid', 'ts', 'clock')
local number, running = first_id(had[1])
local skipped = 0
while taken(integer(number)) do
  number, skipped = number + 1, skipped + 1
  if skipped == 1000 then
    redis.call('HSET', base .. 'job', 'next', integer(number), 'epoch', integer(job.epoch))
    return answer('again', {})
  end
end
if number > 9007199254740991 then
  return answer('exhausted', {})
end
if staged and (redis.call('ZCARD', base .. 'tasks:' .. token) ~= named or redis.call('ZCARD', base .. 'missing:' .. token) ~= named) then
  return answer('restage', {})
end

-- The new record is the first write, which a full Redis refuses before anything changed;
-- the expiry of others comes last, since it would lift that check.
local id = integer(number)
local timestamp = integer(math.max(now, tonumber(had[2] or '0')))
redis.call('HSET', base .. id, 'v', '1', 'status', 'pending', 'epoch', integer(job.epoch), 'rev', '1', 'ts', timestamp,
  'start', integer(now), 'timeout', integer(timeout), 'required', required, 'acked', '0', 'tasks', named > 0 and token or '',
  'pinned', pinned and '1' or '0', 'labels', ARGV[11], 'desc', ARGV[12], 'version', '1', 'entries', '0', 'bytes', '0')
redis.call('HSET', base .. 'job', 'next', integer(number + 1), 'epoch', integer(job.epoch), 'ts', timestamp,
  'clock', integer(math.max(now, tonumber(had[3] or '0'))), 'runid', running ~= '' and running or had[1] or '')
redis.call('ZADD', base .. 'index', id, id)
redis.call('ZADD', base .. 'pending', id, id)
if timeout > 0 then
  redis.call('ZADD', base .. 'deadlines', integer(now + timeout), id)
end
if pinned then
  redis.call('SADD', base .. 'pinned', id)
end
if staged then
  redis.call('ZREM', base .. 'stages', token)
elseif named > 0 then
  local members = {}
  for i = 15, #ARGV do
    members[#members + 1] = 0
    members[#members + 1] = ARGV[i]
  end
  redis.call('ZADD', base .. 'tasks:' .. token, unpack(members))
  redis.call('ZADD', base .. 'missing:' .. token, unpack(members))
end
remember(repeat_name, repeat_ttl, id, integer(job.epoch), token, {}, fingerprint)
local made = view(id)
expire_overdue(100)
return answer('ok', { made, '0' })
