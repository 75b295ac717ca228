-- Reads one task of a checkpoint.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  task id
--
-- Body     view, ack or "", part that waits for its ack or "", as stored
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted;
--          task_not_in_checkpoint: id
--
-- Second run: reads only.

local task = ARGV[3]
local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
local id, names = found.id, found.rec.tasks
local ack = redis.call('HGET', checkpoint_key(id, 'acks'), task)
if ack then
  return answer('ok', { view(id), ack, '' })
end
if names == '' or not redis.call('ZSCORE', base .. 'tasks:' .. names, task) then
  return refuse({ 'task_not_in_checkpoint', id })
end
return answer('ok', { view(id), '', redis.call('HGET', checkpoint_key(id, 'parts'), task) or '' })
