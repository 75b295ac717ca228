-- Prelude of the scripts that end or remove checkpoints.
--
-- Functions:
--   allow_full()                  opens the writes of a script that frees memory
--   record_attempt(task, attempt) raises the highest attempt of a task; attempt is a string
--   end_uncompleted(id, rec, how) ends a pending one; how = { status, reason, at?, task?,
--                                 message?, token? }. Updates rec. Older ones may go in turn, but
--                                 only when the script answers, see trim_ended
--   complete_pending(id, rec, token)
--                                 ends a pending one as completed. Updates rec; call
--                                 apply_retention afterwards
--   settle(id, rec)               to be called before judging a pending record: rebases its
--                                 start after the clock stepped back, writes its expiry
--   expire_overdue(limit)         writes the expiry of up to limit pending ones, and rebases
--                                 all of them after a step back of the clock
--   abandon_part(id, text)          hands the chunks of a part that nobody will read to the sweeper;
--                                 text is its entry in …:parts
--   remove_record(id, rec)        removes a checkpoint of any status and its index entries, and
--                                 notes its id in removed
--   evict(id, rec, reason)        removes a checkpoint; a pending one ends as aborted first
--   expire(id, rec)               writes the expiry of an overdue one
--   report_end(list, id, rec, reason)
--                                 puts an end into ended or before
--   forget(id)                    removes only the index entries, of an id that is not ours
--   trim_ended()                  keeps the newest 20 unpinned that ended uncompleted. Answering
--                                 calls it when one has ended, not earlier: it may take the very
--                                 record that the script is about
--   apply_retention(keep)         keeps the newest completed ones, see below
--   leased(id)                    whether a restore or a recovery holds it

-- A script at maxmemory is refused at its first command that may need memory, but no more
-- once it has written. What frees memory therefore begins with a write that needs none.
local function allow_full()
  redis.call('UNLINK', base .. 'void')
end

local function record_attempt(task, attempt)
  if tonumber(attempt) > 0 then
    local highest = redis.call('HGET', base .. 'attempts', task)
    if not highest or tonumber(highest) < tonumber(attempt) then
      redis.call('HSET', base .. 'attempts', task, attempt)
    end
  end
end

local function report_end(list, id, rec, reason)
  for _, value in ipairs({ id, rec.status, reason, integer(math.max(0, rec.ended - rec.start)), integer(rec.acked) }) do
    list[#list + 1] = value
  end
end

local crowded = false

local function end_uncompleted(id, rec, how)
  crowded = true
  redis.call('UNLINK', checkpoint_key(id, 'state'), checkpoint_key(id, 'staged'))
  rec.status, rec.rev, rec.ended, rec.token = how.status, rec.rev + 1, how.at or now, how.token or ''
  redis.call('HSET', base .. id, 'status', rec.status, 'rev', integer(rec.rev), 'ended', integer(rec.ended),
    'reason', how.reason, 'ftask', how.task or '', 'fmsg', how.message or '', 'token', rec.token)
  redis.call('ZREM', base .. 'pending', id)
  redis.call('ZREM', base .. 'deadlines', id)
  redis.call('ZADD', base .. 'ended', id, id)
  if not rec.pinned then
    redis.call('ZADD', base .. 'remains', id, id)
  end
  if redis.call('EXISTS', checkpoint_key(id, 'parts')) == 1 then
    redis.call('ZADD', base .. 'garbage', integer(now), 'parts:' .. id)
  end
  report_end(ended, id, rec, how.reason)
end

local function complete_pending(id, rec, token)
  rec.status, rec.rev, rec.ended, rec.token = 'completed', rec.rev + 1, now, token
  redis.call('HSET', base .. id, 'status', rec.status, 'rev', integer(rec.rev), 'ended', integer(now), 'token', token)
  redis.call('ZREM', base .. 'pending', id)
  redis.call('ZREM', base .. 'deadlines', id)
  redis.call('ZADD', base .. 'completed', id, id)
  if not rec.pinned then
    redis.call('ZADD', base .. 'retained', id, id)
  end
  if redis.call('EXISTS', checkpoint_key(id, 'staged')) == 1 then
    redis.call('ZADD', base .. 'garbage', integer(now), 'staged:' .. id)
  end
  report_end(ended, id, rec, '')
end

local function rebase(id, rec)
  rec.start = now
  redis.call('HSET', base .. id, 'start', integer(now))
  if rec.timeout > 0 then
    redis.call('ZADD', base .. 'deadlines', integer(now + rec.timeout), id)
  end
end

-- The end of an expired one is its deadline, not the moment somebody noticed, so that
-- what reads derive and what is written are the same.
local function expire(id, rec)
  end_uncompleted(id, rec, { status = 'expired', reason = 'expired', at = rec.start + rec.timeout })
end

local function abandon_part(id, text)
  local upload, chunks = string.match(text, '^([^|]*)|(%d+)|')
  if upload and chunks ~= '0' then
    redis.call('ZADD', base .. 'garbage', integer(now), 'upload:' .. id .. ':' .. upload .. ':' .. chunks)
  end
end

local function forget(id)
  for _, index in ipairs({ 'index', 'pending', 'deadlines', 'completed', 'retained', 'ended', 'remains' }) do
    redis.call('ZREM', base .. index, id)
  end
  redis.call('SREM', base .. 'pinned', id)
end

local removed = {}

local function remove_record(id, rec)
  removed[id] = true
  redis.call('UNLINK', base .. id, checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'), checkpoint_key(id, 'state'),
    checkpoint_key(id, 'staged'), checkpoint_key(id, 'leases'))
  if rec.tasks ~= '' then
    redis.call('UNLINK', base .. 'tasks:' .. rec.tasks, base .. 'missing:' .. rec.tasks)
  end
  forget(id)
  if redis.call('EXISTS', checkpoint_key(id, 'parts')) == 1 then
    redis.call('ZADD', base .. 'garbage', integer(now), 'parts:' .. id)
  end
end

local function evict(id, rec, reason)
  if rec.status == 'pending' then
    rec.status, rec.ended = 'aborted', now
    report_end(ended, id, rec, reason)
  end
  remove_record(id, rec)
end

local function leased(id)
  return redis.call('ZCOUNT', checkpoint_key(id, 'leases'), integer(now), '+inf') > 0
end

local function trim_ended()
  if not crowded then
    return
  end
  crowded = false
  local over = redis.call('ZCARD', base .. 'remains') - 20
  if over <= 0 then
    return
  end
  for _, id in ipairs(redis.call('ZRANGE', base .. 'remains', 0, math.min(over, 100) - 1)) do
    local rec = read_record(id)
    if rec then
      remove_record(id, rec)
      evicted[#evicted + 1] = id
    else
      forget(id)
    end
  end
end

before_answer = trim_ended

-- Removes what is older than the newest keep completed, unpinned ones; 0 keeps all.
-- Leased ones wait for a later call, and count as kept until then. The latest completed
-- one survives by itself: it is pinned, hence not in the index, or the newest in it. At
-- most 100 are looked at; the sweep goes on with the rest.
local function apply_retention(keep)
  if keep <= 0 then
    return
  end
  local over = redis.call('ZCARD', base .. 'retained') - keep
  if over <= 0 then
    return
  end
  for _, id in ipairs(redis.call('ZRANGE', base .. 'retained', 0, math.min(over, 100) - 1)) do
    local rec = read_record(id)
    if not rec then
      forget(id)
    elseif not leased(id) then
      remove_record(id, rec)
      evicted[#evicted + 1] = id
    end
  end
end

local function settle(id, rec)
  if rec.status ~= 'pending' then
    return
  end
  if now < rec.start then
    rebase(id, rec)
  elseif overdue(rec) then
    expire(id, rec)
  end
end

-- The job's field clock is an upper bound of every pending start, so that a step back of
-- the clock shows without reading any record.
local function expire_overdue(limit)
  local seen = redis.call('HGET', base .. 'job', 'clock')
  if seen and now < tonumber(seen) then
    allow_full()
    for _, id in ipairs(redis.call('ZRANGE', base .. 'pending', 0, 999)) do
      local rec = read_record(id)
      if rec and now < rec.start then
        rebase(id, rec)
      end
    end
    redis.call('HSET', base .. 'job', 'clock', integer(now))
  end
  local late = redis.call('ZRANGEBYSCORE', base .. 'deadlines', '-inf', '(' .. integer(now), 'LIMIT', 0, limit)
  if #late == 0 then
    return
  end
  allow_full()
  for _, id in ipairs(late) do
    local rec = read_record(id)
    if not rec or rec.status ~= 'pending' then
      redis.call('ZREM', base .. 'deadlines', id)
      redis.call('ZREM', base .. 'pending', id)
    elseif overdue(rec) then
      expire(id, rec)
    elseif rec.timeout > 0 then
      redis.call('ZADD', base .. 'deadlines', integer(rec.start + rec.timeout), id)
    else
      redis.call('ZREM', base .. 'deadlines', id)
    end
  end
end
