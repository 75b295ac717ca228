-- Keeps a digest in the record of a completed checkpoint, where computing it
-- again would give the same. It is no change of the checkpoint: the revision stays.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  field: "digest" of the snapshot, "sdigest" of the shared state
-- ARGV[4]  digest
--
-- Body     nothing, also where there is no such checkpoint or it is not completed
-- Refusals none
--
-- Second run: writes the same.

local found = find(ARGV[2])
if found and found.rec.status == 'completed' then
  redis.call('HSET', found.rec.key, ARGV[3], ARGV[4])
end
return answer('ok', {})
