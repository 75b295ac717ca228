-- release_lease: gives a checkpoint back at once, so that retention need not wait.
--
-- ARGV[2]  checkpoint id
-- ARGV[3]  lease id
--
-- Returns  ok, also where there is no such lease or checkpoint
-- Errors   none
--
-- Second run: there is nothing left to remove.

redis.call('ZREM', checkpoint_key(ARGV[2], 'leases'), ARGV[3])
return answer('ok', {})
