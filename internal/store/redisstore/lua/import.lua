-- Brings finished checkpoints into a job, step by step; coordinator.ImportStep says what each is for.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  step: open, begin, renew, tasks, finish or drop
-- with open
-- ARGV[3]  next id
-- ARGV[4]  epoch
-- ARGV[5]  "1" when the caller has put the job into the list of jobs
-- with the others
-- ARGV[3]  checkpoint id
-- ARGV[4]  token that begin gives to the checkpoint, not empty
-- with begin and renew
-- ARGV[5]  lease (ms, > 0)
-- with tasks
-- ARGV[5]  token of the lists of named tasks, "" where none are named
-- ARGV[6…] up to 500 tasks: name, acknowledgement as in …:acks or "" for a missing one
-- with finish
-- ARGV[5]  how many have acknowledged
-- ARGV[6]  how many parts there are
-- ARGV[7]  keys of the shared state
-- ARGV[8]  restore bytes of the shared state
-- ARGV[9]  entries of the snapshot
-- ARGV[10] restore bytes of the snapshot
-- ARGV[11] when it started (ms)
-- ARGV[12] when it ended (ms)
-- ARGV[13] when it was triggered, for display (ms)
-- ARGV[14…] fields of the record and their values, status and pinned among them
--
-- Body     empty
-- Other words
--          register: the job is new, or was deleted; put it into the list of jobs, then call again
--          not_empty: the job has checkpoints; with begin, something has the id
--          importing: the job has a checkpoint under import
--          leftovers: parts of a deleted checkpoint with this id wait for drain.lua, then call again
--          damaged: what is there is not what finish counts
-- Refusals job_not_found; with all but open, begin and drop checkpoint_not_found, checkpoint_deleted: current
--          id or "", latest id or ""
-- Second run: writes the same; a second begin finds its mark on the record, a second finish its token
--          in the one that ended as it should.

local step, id, token = ARGV[2], ARGV[3], ARGV[4]
local job = read_job()

if step == 'open' then
  if (not job.known or job.gone) and ARGV[5] ~= '1' then
    return answer('register', {})
  end
  if redis.call('ZCARD', base .. 'index') > 0 then
    return answer('not_empty', {})
  end
  if redis.call('ZCARD', base .. 'importing') > 0 then
    return answer('importing', {})
  end
  redis.call('HSET', base .. 'job', 'next', integer(math.max(job.next, tonumber(ARGV[3]))), 'epoch', integer(math.max(job.epoch, tonumber(ARGV[4]))))
  redis.call('HDEL', base .. 'job', 'gone')
  redis.call('UNLINK', base .. 'attempts')
  return answer('ok', {})
end

if not job.known or job.gone then
  return refuse({ 'job_not_found' })
end

if step == 'begin' then
  if redis.pcall('HGET', base .. id, 'v') == import_mark(token) then
    return answer('ok', {})
  end
  if redis.call('ZSCORE', base .. 'garbage', 'parts:' .. id) then
    return answer('leftovers', {})
  end
  if redis.call('EXISTS', base .. id, checkpoint_key(id, 'adopted'), checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'),
    checkpoint_key(id, 'unsorted'), checkpoint_key(id, 'parts'), checkpoint_key(id, 'staged'), checkpoint_key(id, 'state'),
    checkpoint_key(id, 'leases')) > 0 then
    return answer('not_empty', {})
  end
  redis.call('HSET', base .. id, 'v', import_mark(token), 'status', 'pending', 'rev', '1', 'acked', '0', 'start', integer(now), 'timeout', '0',
    'required', '1', 'entries', '0', 'bytes', '0', 'epoch', integer(job.epoch), 'tasks', '', 'pinned', '0', 'version', '1',
    'ts', integer(now), 'labels', '', 'desc', '', 'token', token)
  redis.call('HSET', base .. 'job', 'next', integer(math.max(job.next, tonumber(id) + 1)))
  redis.call('ZADD', base .. 'importing', integer(now + tonumber(ARGV[5])), id)
  return answer('ok', {})
end

local rec = importing(id, token)
if step == 'drop' then
  if rec then
    drop_import(id)
  end
  return answer('ok', {})
end
local changed = {}
for i = 14, step == 'finish' and #ARGV or 0, 2 do
  changed[ARGV[i]] = ARGV[i + 1]
end
if not rec then
  local known = step == 'finish' and kept_answer(token)
  if known then
    return known
  end
  local done = step == 'finish' and read_record(id)
  if done and done.status == changed.status and done.token == token then
    return answer('ok', {})
  end
  return refuse(absent(job, id, true))
end

if step == 'renew' then
  redis.call('ZADD', base .. 'importing', integer(now + tonumber(ARGV[5])), id)
  return answer('ok', {})
end

if step == 'tasks' then
  local names = ARGV[5]
  if names ~= '' then
    redis.call('HSET', base .. id, 'tasks', names)
  end
  for i = 6, #ARGV, 2 do
    local task, ack = ARGV[i], ARGV[i + 1]
    if names ~= '' then
      redis.call('ZADD', base .. 'tasks:' .. names, 0, task)
    end
    if ack ~= '' then
      redis.call('HSET', checkpoint_key(id, 'acks'), task, ack)
      redis.call('ZADD', checkpoint_key(id, 'acked'), 0, task)
      redis.call('SREM', checkpoint_key(id, 'staged'), task)
      record_attempt(task, string.match(ack, '^%d+'))
    elseif names ~= '' then
      redis.call('ZADD', base .. 'missing:' .. names, 0, task)
    end
  end
  return answer('ok', {})
end

local function whole()
  local acked = tonumber(ARGV[5])
  if redis.call('ZCARD', checkpoint_key(id, 'acked')) ~= acked or redis.call('HLEN', checkpoint_key(id, 'acks')) ~= acked then
    return false
  end
  if redis.call('HLEN', checkpoint_key(id, 'parts')) ~= tonumber(ARGV[6]) or redis.call('EXISTS', checkpoint_key(id, 'staged')) == 1 then
    return false
  end
  if rec.tasks ~= '' and redis.call('ZCARD', base .. 'tasks:' .. rec.tasks) ~= acked + redis.call('ZCARD', base .. 'missing:' .. rec.tasks) then
    return false
  end
  local size = redis.call('HMGET', base .. id, 'sentries', 'sbytes')
  return (size[1] or '0') == ARGV[7] and (size[2] or '0') == ARGV[8]
end
if not whole() then
  return answer('damaged', {})
end
rec.status, rec.acked, rec.entries, rec.bytes = changed.status, tonumber(ARGV[5]), tonumber(ARGV[9]), tonumber(ARGV[10])
rec.start, rec.ended, rec.pinned, rec.aside = tonumber(ARGV[11]), tonumber(ARGV[12]), changed.pinned == '1', changed.aside == '1'
rec.required, rec.failure = tonumber(changed.required), nil
redis.call('HSET', base .. id, 'v', '1', 'acked', ARGV[5], 'entries', ARGV[9], 'bytes', ARGV[10], 'start', ARGV[11], 'ended', ARGV[12],
  'ts', ARGV[13], unpack(ARGV, 14))
redis.call('HSET', base .. 'job', 'ts', integer(math.max(tonumber(redis.call('HGET', base .. 'job', 'ts') or '0'), math.min(tonumber(ARGV[13]), now))))
redis.call('ZREM', base .. 'importing', id)
redis.call('ZADD', base .. 'index', id, id)
if rec.pinned then
  redis.call('SADD', base .. 'pinned', id)
end
if rec.status == 'completed' then
  local ok = redis.call('HMGET', base .. 'job', 'okid', 'okat')
  redis.call('HSET', base .. 'job', 'okid', integer(math.max(tonumber(ok[1] or '-1'), tonumber(id))),
    'okat', integer(math.max(tonumber(ok[2] or '0'), rec.ended)))
  redis.call('ZADD', base .. 'completed', id, id)
  if not rec.pinned and usable(rec) then
    ends.retain(id, rec)
  end
else
  redis.call('ZADD', base .. 'ended', id, id)
  if not rec.pinned then
    redis.call('ZADD', base .. 'remains', id, id)
  end
  crowded = true
end
events.checkpoint(rec.status, id, rec)
-- Answering may remove it, where newer ones that ended uncompleted came before it.
local reply = answer('ok', {})
if removed[id] then
  keep_answer(token, reply)
end
return reply
