-- Prelude of the scripts that make checkpoints: after prelude.lua, prelude_event.lua,
-- prelude_history.lua, prelude_end.lua, prelude_settings.lua and prelude_floor.lua.
--
-- Functions:
--   find_place(job, floor)    where the next checkpoint goes: { id, running, eprun, lost, seq, clock, ts };
--                             or nil and the answer "again" (1000 ids in a row were taken by foreign
--                             keys, call again) or "exhausted" (the job has no ids left). floor is what
--                             the caller has seen, see floor_of: the job's epoch is raised to it
--   create(job, place, s, what)
--                             makes the checkpoint and gives its view. s are the settings; what is
--                             { token, required, timeout, tasks, labels, desc, pinned }: tasks is "" for
--                             any task, "staged" for a list under the token, "job" for that of the
--                             settings, or the first ARGV of up to 1000 names. Its first write is one
--                             that a full Redis refuses

local function taken(id)
  return redis.call('EXISTS', base .. id, checkpoint_key(id, 'adopted'), checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'), checkpoint_key(id, 'unsorted'),
    checkpoint_key(id, 'parts'), checkpoint_key(id, 'staged'), checkpoint_key(id, 'state'), checkpoint_key(id, 'leases')) > 0
end

local function find_place(job, floor)
  local had = redis.call('HMGET', base .. 'job', 'runid', 'ts', 'clock', 'eprun')
  -- A counter that is behind its own checkpoints was set back.
  local newest = tonumber(redis.call('ZREVRANGE', base .. 'index', 0, 0)[1] or '-1')
  if newest >= job.next then
    job.next, job.lost = newest + 1, true
  end
  local number, lost = first_id(job, floor, had[1])
  local running = events.running() ~= '' and events.running() or had[1] or ''
  local skipped = 0
  job.epoch = math.max(job.epoch, floor.epoch)
  while taken(integer(number)) do
    number, skipped = number + 1, skipped + 1
    if skipped == 1000 then
      redis.call('HSET', base .. 'job', 'next', integer(number), 'epoch', integer(job.epoch))
      return nil, answer('again', {})
    end
  end
  if number > 9007199254740991 then
    return nil, answer('exhausted', {})
  end
  return {
    id = number, running = running, lost = lost, seq = floor.seq,
    -- The epoch is not given here: should another server than before have lost one, the next recovery finds it.
    eprun = job.lost and 'lost' or had[4] or had[1] or running,
    ts = math.max(now, tonumber(had[2] or '0')), clock = math.max(now, tonumber(had[3] or '0')),
  }
end

local function name_tasks(token, what, s)
  local tasks, missing = base .. 'tasks:' .. token, base .. 'missing:' .. token
  if what.tasks == 'staged' then
    redis.call('ZREM', base .. 'stages', token)
  elseif what.tasks == 'job' then
    -- Those of the settings are in the order of their caller.
    redis.call('ZUNIONSTORE', tasks, 1, base .. 'tasks:' .. s.names, 'WEIGHTS', 0)
    redis.call('COPY', tasks, missing)
  else
    local members = {}
    for i = what.tasks, #ARGV do
      members[#members + 1] = 0
      members[#members + 1] = ARGV[i]
    end
    redis.call('ZADD', tasks, unpack(members))
    redis.call('ZADD', missing, unpack(members))
  end
end

-- The expiry of others is written after the record, since it would lift the check of a full
-- Redis; but it is told before, since it happened before.
-- What acknowledgements read stands first: Redis finds a field of a small hash by walking to it.
local function create(job, place, s, what)
  local id, required, timeout = integer(place.id), integer(what.required), what.timeout
  local token = what.tasks ~= '' and what.token or ''
  redis.call('HSET', base .. id, 'v', '1', 'status', 'pending', 'rev', '1', 'acked', '0', 'start', integer(now),
    'timeout', integer(timeout), 'required', required, 'entries', '0', 'bytes', '0', 'epoch', integer(job.epoch), 'tasks', token,
    'pinned', what.pinned and '1' or '0', 'version', '1', 'ts', integer(place.ts), 'labels', what.labels, 'desc', what.desc)
  redis.call('HSET', base .. 'job', 'next', integer(place.id + 1), 'epoch', integer(job.epoch), 'ts', integer(place.ts),
    'clock', integer(place.clock), 'runid', place.running, 'eprun', place.eprun, noted(s))
  if job.gone then
    redis.call('HDEL', base .. 'job', 'gone')
  end
  redis.call('ZADD', base .. 'index', id, id)
  redis.call('ZADD', base .. 'pending', id, id)
  if timeout > 0 then
    redis.call('ZADD', base .. 'deadlines', integer(now + timeout), id)
  end
  if what.pinned then
    redis.call('SADD', base .. 'pinned', id)
  end
  if token ~= '' then
    name_tasks(token, what, s)
  end
  local made = view(id)
  -- A server that was emptied does not show as another one.
  if place.lost then
    local log = events.open()
    log.seq = math.max(log.jumped and log.seq or log.seq + 1000, place.seq + 1000)
  end
  ends.expire_overdue(100)
  history.count('triggered')
  events.checkpoint('triggered', id, {
    status = 'pending', required = what.required, acked = 0, start = now, timeout = timeout, tasks = token,
  })
  return made
end
