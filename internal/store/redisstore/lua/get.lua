-- Reads one checkpoint, or the latest completed one, with its first acknowledgements.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  how many acknowledgements to answer, in byte order of the task ids
--
-- Body     view, { taskId, ack, … } with each ack as it is stored
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted;
--          damaged, inconsistent: id, what is not there as recorded
-- Also     again, see prelude_sort.lua
--
-- Second run: reads only, but for what sort_acks moves.

local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
if sort_acks(found.id) then
  return answer('again', {})
end
local rec = found.rec
local contradiction = uneven(found.id, rec)
if contradiction then
  -- What completed is known to have been whole once: then something of it is lost.
  return refuse({ rec.status == 'completed' and 'damaged' or contradiction[1], contradiction[2], contradiction[3] })
end
local rows = {}
local tasks = redis.call('ZRANGE', checkpoint_key(found.id, 'acked'), 0, tonumber(ARGV[3]) - 1)
if #tasks > 0 then
  local acks = redis.call('HMGET', checkpoint_key(found.id, 'acks'), unpack(tasks))
  for i, task in ipairs(tasks) do
    rows[2 * i - 1] = task
    rows[2 * i] = acks[i] or ''
  end
end
return answer('ok', { view(found.id), rows })
