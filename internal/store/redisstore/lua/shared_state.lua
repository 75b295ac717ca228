-- Reads the whole shared state of a checkpoint.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
--
-- Body     view, { key, value, … } in no order
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted,
--          checkpoint_expired and checkpoint_aborted: current id or "", latest id or ""
--
-- Second run: reads only.

local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
if found.rec.status == 'expired' or found.rec.status == 'aborted' then
  return refuse(ended_refusal(found.rec))
end
return answer('ok', { view(found.id), redis.call('HGETALL', checkpoint_key(found.id, 'state')) })
