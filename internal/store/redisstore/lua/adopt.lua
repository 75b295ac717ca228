-- Makes a checkpoint of what another program keeps under its name, and leaves that as it is: the
-- record lies beside it, as …:adopted, and its state as any other shared state. It has ended, and
-- is pinned, so that only who asks for it removes it.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  length of the value that it was read from
-- ARGV[4]  "1" where it has completed, "0" where not; or "" to pass over the id only, so that no
--          trigger gives it
-- ARGV[5]  version of the snapshot
-- ARGV[6]  when it was triggered (ms), which is also its end where it has completed
-- ARGV[7]  how long after that one that has not completed may still do (ms, "0" = for ever); it
--          has expired then
-- ARGV[8]  restore bytes of the state
-- ARGV[9]  description
-- ARGV[10…] key and value of each entry of the state, none unless it has completed
--
-- Body     empty
-- Other words
--          pending: it may still complete; its id was passed over
--          already: it was adopted before
--          changed: there is another value now than the one that was read
--          occupied: there are keys of an earlier checkpoint with this id
-- Refusals none
-- Second run: answers already.

local id, completed, timestamp, timeout = ARGV[2], ARGV[4], tonumber(ARGV[6]), tonumber(ARGV[7])
local job, had = read_job(), tonumber(redis.call('HGET', base .. 'job', 'ts') or '0')

local function pass_over()
  redis.call('HSET', base .. 'job', 'next', integer(math.max(job.next, tonumber(id) + 1)), 'epoch', integer(job.epoch),
    'ts', integer(math.max(had, math.min(timestamp, now))))
end

if completed == '' then
  pass_over()
  return answer('ok', {})
end
if redis.pcall('HGET', checkpoint_key(id, 'adopted'), 'v') == '1' then
  return answer('already', {})
end
local length = redis.pcall('STRLEN', base .. id)
if type(length) ~= 'number' or integer(length) ~= ARGV[3] then
  return answer('changed', {})
end
if redis.call('EXISTS', checkpoint_key(id, 'adopted'), checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'),
  checkpoint_key(id, 'unsorted'), checkpoint_key(id, 'parts'), checkpoint_key(id, 'staged'), checkpoint_key(id, 'state'),
  checkpoint_key(id, 'leases')) > 0 then
  return answer('occupied', {})
end
local status, reason, ended = 'completed', '', timestamp
if completed == '0' then
  status, reason, ended = 'expired', 'expired', timestamp + timeout
  if timeout == 0 or now <= ended then
    pass_over()
    return answer('pending', {})
  end
end

for i = 10, #ARGV, 1000 do
  redis.call('HSET', checkpoint_key(id, 'state'), unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
local entries = integer((#ARGV - 9) / 2)
redis.call('HSET', checkpoint_key(id, 'adopted'), 'v', '1', 'status', status, 'rev', '1', 'acked', '0', 'start', integer(timestamp),
  'timeout', integer(timeout), 'required', '1', 'entries', entries, 'bytes', ARGV[8], 'epoch', '0', 'tasks', '', 'pinned', '1',
  'version', ARGV[5], 'ts', integer(timestamp), 'labels', '', 'desc', ARGV[9], 'ended', integer(ended), 'reason', reason,
  'sentries', entries, 'sbytes', ARGV[8], 'srev', '0', 'source', ARGV[3])
pass_over()
redis.call('ZADD', base .. 'index', id, id)
redis.call('SADD', base .. 'pinned', id)
redis.call('ZADD', base .. (status == 'completed' and 'completed' or 'ended'), id, id)
events.checkpoint(status, id, read_record(id))
return answer('ok', {})
