-- Prelude of the scripts that end or remove checkpoints: after prelude.lua, prelude_sort.lua,
-- prelude_event.lua and prelude_history.lua. Each end and each removal writes its events.
--
-- Functions:
--   allow_full()                  opens the writes of a script that frees memory
--   record_attempt(task, attempt) raises the highest attempt of a task; attempt is a string
--   report_end(list, id, rec, reason)
--                                 puts an end into ended or before
--   settle(id, rec)               to be called before judging a pending record: rebases its
--                                 start after the clock stepped back, writes its expiry
-- Functions of the lazy table ends:
--   end_uncompleted(id, rec, how) ends a pending one; how = { status, reason, at?, task?,
--                                 message?, token? }. Updates rec. Older ones may go in turn, but
--                                 only when the script answers, see trim_ended
--   complete_pending(id, rec, token, last_task)
--                                 ends a pending one as completed, by the acknowledgement of
--                                 last_task or "" by hand. Updates rec; call apply_retention
--                                 afterwards
--   expire(id, rec)               writes the expiry of an overdue one
--   expire_overdue(limit)         writes the expiry of up to limit pending ones, and rebases
--                                 all of them after a step back of the clock
--   rebase(id, rec)               moves the start of one to now
--   retain(id, rec)               puts a completed one among those that retention counts
--   release(id, rec)              takes one out of them, if it is there
--   remove_record(id, rec, why)   removes a checkpoint that has ended and its index entries, and
--                                 notes its id in removed
--   evict(id, rec, reason, why)   removes a checkpoint; a pending one ends as aborted first
--   forget(id)                    removes only the index entries
--   pass_over(id)                 for a walk over an index that meets one without a whole record: takes it out
--                                 of what is counted, and leaves what is there of it to be seen
--   remnant(id)                   what is known of one without a whole record that an index has, in the form
--                                 of read_record, for remove_record and evict; or nil where none has it
--   trim_ended()                  keeps the newest 20 unpinned that ended uncompleted. Answering
--                                 calls it when one has ended, not earlier: it may take the very
--                                 record that the script is about
--   apply_retention(limits, looks)
--                                 keeps the newest completed ones, see below
--   leased(id)                    whether a restore or a recovery holds it
-- Values: removed, what this step has removed, by id.

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

-- crowded tells that one has ended uncompleted in this step.
local removed, crowded = {}, false

local ends = lazily(function(ends)
  local expire_overdue
  -- The one that completed in this step.
  local fresh

  local function add_bytes(sign, bytes)
    if bytes > 0 and redis.call('HEXISTS', base .. 'job', 'rbytes') == 1 then
      redis.call('HINCRBY', base .. 'job', 'rbytes', integer(sign * bytes))
    end
  end

  local function retain(id, rec)
    if redis.call('ZADD', base .. 'retained', id, id) == 1 then
      add_bytes(1, rec.bytes)
    end
  end

  local function release(id, rec)
    if redis.call('ZREM', base .. 'retained', id) == 1 then
      add_bytes(-1, rec.bytes)
    end
  end

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
    rec.failure = { reason = how.reason, task = how.task or '', message = how.message or '' }
    history.count(how.reason)
    events.checkpoint(how.status, id, rec)
    if how.reason == 'expired' or how.reason == 'declined' then
      history.failed(id, rec)
    end
  end

  -- What was overdue by now ended before this one, and must not count as a failure after it;
  -- it is written second, since it lifts the check that a full Redis makes.
  local function complete_pending(id, rec, token, last_task)
    fresh = id
    rec.status, rec.rev, rec.ended, rec.token = 'completed', rec.rev + 1, now, token
    redis.call('HSET', base .. id, 'status', rec.status, 'rev', integer(rec.rev), 'ended', integer(now), 'token', token)
    expire_overdue(100)
    -- So that reading a snapshot of up to a thousand tasks writes nothing.
    sort_acks(id)
    redis.call('ZREM', base .. 'pending', id)
    redis.call('ZREM', base .. 'deadlines', id)
    redis.call('ZADD', base .. 'completed', id, id)
    if not rec.pinned then
      retain(id, rec)
    end
    if redis.call('EXISTS', checkpoint_key(id, 'staged')) == 1 then
      redis.call('ZADD', base .. 'garbage', integer(now), 'staged:' .. id)
    end
    report_end(ended, id, rec, '')
    history.count('completed')
    events.checkpoint('completed', id, rec)
    history.completed(id, rec, last_task)
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

  local function forget(id)
    for _, index in ipairs({ 'index', 'pending', 'deadlines', 'completed', 'ended', 'remains' }) do
      redis.call('ZREM', base .. index, id)
    end
    redis.call('SREM', base .. 'pinned', id)
    if redis.call('ZREM', base .. 'retained', id) == 1 then
      -- Nobody knows how many bytes it stood for; who needs the sum adds it up anew.
      redis.call('HDEL', base .. 'job', 'rbytes')
    end
  end

  -- A completed one stays among the completed, where latest and recovery meet it: only who asks for its deletion
  -- takes it away. One that had not completed ends; nobody can acknowledge it any more.
  local function pass_over(id)
    allow_full()
    if redis.call('ZREM', base .. 'retained', id) == 1 then
      redis.call('HDEL', base .. 'job', 'rbytes')
    end
    local listed = redis.call('ZSCORE', base .. 'index', id)
    if redis.call('ZSCORE', base .. 'completed', id) then
      return
    elseif not listed then
      return forget(id)
    end
    redis.call('ZREM', base .. 'deadlines', id)
    if redis.call('ZREM', base .. 'pending', id) == 1 then
      redis.call('ZADD', base .. 'ended', id, id)
      redis.call('ZADD', base .. 'remains', id, id)
      crowded = true
    end
  end

  local function remnant(id)
    local status
    if redis.call('ZSCORE', base .. 'completed', id) then
      status = 'completed'
    elseif redis.call('ZSCORE', base .. 'pending', id) then
      status = 'pending'
    elseif redis.call('ZSCORE', base .. 'index', id) or redis.call('ZSCORE', base .. 'ended', id) then
      status = 'aborted'
    else
      return nil
    end
    local key = base .. id
    if redis.pcall('HEXISTS', checkpoint_key(id, 'adopted'), 'status') == 1 then
      key = checkpoint_key(id, 'adopted')
    end
    -- What else has the name since is somebody else's, and stays.
    local had = redis.pcall('HMGET', key, 'status', 'tasks')
    local acked = redis.pcall('HLEN', checkpoint_key(id, 'acks'))
    return {
      key = key, status = status, rev = 0, start = now, ended = now, timeout = 0, required = 1, acked = type(acked) == 'number' and acked or 0,
      entries = 0, bytes = 0, epoch = 0, version = RESTORABLE, token = '', damage = '', foreign = had.err or not had[1],
      tasks = not had.err and had[2] or '', pinned = redis.call('SISMEMBER', base .. 'pinned', id) == 1,
      failure = { reason = 'aborted', task = '', message = '' }, remnant = true,
    }
  end

  -- What an adopted one was read from goes with it, or it would be adopted anew; but only that very
  -- value: its length tells, since comparing it would take long.
  local function drop_source(id, rec)
    if rec.key == base .. id then
      return
    end
    local length = redis.pcall('STRLEN', base .. id)
    if type(length) == 'number' and integer(length) == redis.call('HGET', rec.key, 'source') then
      redis.call('UNLINK', base .. id)
    end
  end

  local function remove_record(id, rec, why)
    -- Removing must work when Redis is full, so it begins with what frees memory.
    allow_full()
    removed[id] = true
    history.count('deleted')
    events.checkpoint('deleted', id, rec, why)
    if not rec.remnant then
      release(id, rec)
    end
    drop_source(id, rec)
    if not rec.foreign then
      redis.call('UNLINK', rec.key)
    end
    redis.call('UNLINK', checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'), checkpoint_key(id, 'unsorted'),
      checkpoint_key(id, 'state'), checkpoint_key(id, 'staged'), checkpoint_key(id, 'leases'))
    if rec.tasks ~= '' then
      redis.call('UNLINK', base .. 'tasks:' .. rec.tasks, base .. 'missing:' .. rec.tasks)
    end
    forget(id)
    if redis.call('EXISTS', checkpoint_key(id, 'parts')) == 1 then
      redis.call('ZADD', base .. 'garbage', integer(now), 'parts:' .. id)
    end
  end

  local function evict(id, rec, reason, why)
    if rec.status == 'pending' then
      allow_full()
      rec.status, rec.ended, rec.failure = 'aborted', now, { reason = reason, task = '', message = '' }
      report_end(ended, id, rec, reason)
      history.count(reason)
      events.checkpoint('aborted', id, rec)
    end
    remove_record(id, rec, why)
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
      local rec = read_record(id) or remnant(id)
      if rec then
        remove_record(id, rec, 'retention')
        evicted[#evicted + 1] = id
      else
        forget(id)
      end
    end
  end

  -- The sum of the bytes of what is retained. It is kept from the first moment on at which
  -- somebody needs it.
  local function retained_bytes()
    local known = redis.call('HGET', base .. 'job', 'rbytes')
    if known then
      return tonumber(known)
    end
    local sum = 0
    for _, id in ipairs(redis.call('ZRANGE', base .. 'retained', 0, -1)) do
      local rec = read_record(id)
      sum = sum + (rec and rec.bytes or 0)
    end
    allow_full()
    redis.call('HSET', base .. 'job', 'rbytes', integer(sum))
    return sum
  end

  -- Walks over the completed, unpinned ones, oldest first, and removes each that is too many, too
  -- old, or without which they have too many bytes together. limits is "keep|age|bytes" of the
  -- server, 0 is no limit; the job's own settings win. A leased one waits for a later call and
  -- counts as kept until then, and the newest one always stays. At most 100 are removed and
  -- looks passed over; the sweep goes on with the rest. Where only age is limited, the walk ends
  -- behind a tenth as many that are too young: older ones stand behind them only if they ended
  -- before, while these were pending.
  local function apply_retention(limits, looks)
    local own = redis.call('HMGET', base .. 'job', 's_keep', 's_age', 's_bytes')
    local keep, age, bytes = string.match(limits, '^(%d+)|(%d+)|(%d+)$')
    keep, age, bytes = tonumber(own[1] or keep), tonumber(own[2] or age), tonumber(own[3] or bytes)
    local places = redis.call('ZCARD', base .. 'retained')
    local sum = bytes > 0 and places > 1 and retained_bytes() or 0

    -- places are those from the present one on to the newest.
    local function over(rec)
      return keep > 0 and places > keep or age > 0 and now - rec.ended > age or bytes > 0 and sum > bytes
    end
    local young = 0
    local function some_over()
      return keep > 0 and places > keep or age > 0 and young < looks / 10 or bytes > 0 and sum > bytes
    end
    -- The newest one that is ours stays, so nothing of others may stand in its place.
    while places > 1 and some_over() do
      local newest = redis.call('ZRANGE', base .. 'retained', -1, -1)[1]
      if newest == fresh or read_record(newest) then
        break
      end
      pass_over(newest)
      places = places - 1
    end
    local passed, gone = 0, 0
    while places > 1 do
      local ids = redis.call('ZRANGE', base .. 'retained', passed, passed + 99)
      for _, id in ipairs(ids) do
        if places <= 1 or passed == looks or gone == 100 or not some_over() then
          return
        end
        local rec = read_record(id)
        if not rec then
          pass_over(id)
        elseif not over(rec) then
          passed, young = passed + 1, young + 1
        elseif leased(id) then
          passed = passed + 1
        else
          remove_record(id, rec, 'retention')
          evicted[#evicted + 1] = id
          gone, sum = gone + 1, sum - rec.bytes
        end
        places = places - 1
      end
      if #ids < 100 then
        return
      end
    end
  end

  -- The job's field clock is an upper bound of every pending start, so that a step back of
  -- the clock shows without reading any record.
  expire_overdue = function(limit)
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
      if not rec then
        pass_over(id)
      elseif rec.status ~= 'pending' then
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

  ends.retain, ends.release, ends.forget, ends.leased = retain, release, forget, leased
  ends.pass_over, ends.remnant = pass_over, remnant
  ends.end_uncompleted, ends.complete_pending, ends.rebase = end_uncompleted, complete_pending, rebase
  ends.expire, ends.expire_overdue = expire, expire_overdue
  ends.remove_record, ends.evict, ends.trim_ended, ends.apply_retention = remove_record, evict, trim_ended, apply_retention
end)

before_answer = function()
  if crowded then
    ends.trim_ended()
  end
  if log then
    events.close()
  end
end

local function settle(id, rec)
  if rec.status ~= 'pending' then
    return
  end
  if now < rec.start then
    ends.rebase(id, rec)
  elseif overdue(rec) then
    ends.expire(id, rec)
  end
end
