-- Gives a checkpoint back at once, so that retention need not wait.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  lease id
--
-- Body     nothing, also where there is no such lease or checkpoint
-- Refusals none
--
-- Second run: there is nothing left to remove.

redis.call('ZREM', checkpoint_key(ARGV[2], 'leases'), ARGV[3])
return answer('ok', {})
