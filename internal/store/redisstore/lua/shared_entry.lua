-- Reads one entry of a checkpoint's shared state.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  key
--
-- Body     view, value, entity tag of the value
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted,
--          checkpoint_expired and checkpoint_aborted: current id or "", latest id or "";
--          key_not_found: id, key
--
-- Second run: reads only.

local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
if found.rec.status == 'expired' or found.rec.status == 'aborted' then
  return refuse(ended_refusal(found.rec))
end
local value = redis.call('HGET', checkpoint_key(found.id, 'state'), ARGV[3])
if not value then
  return refuse({ 'key_not_found', found.id, ARGV[3] })
end
return answer('ok', { view(found.id), value, redis.sha1hex(value) })
