-- Holds a checkpoint for longer.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  lease id
-- ARGV[4]  lease, ms
--
-- Body     nothing
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted
--
-- Second run: renews again.

local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
-- Reading goes on when Redis is full: a script that has written once may go on to write.
redis.call('ZREMRANGEBYSCORE', checkpoint_key(found.id, 'leases'), '-inf', '(' .. integer(now))
redis.call('ZADD', checkpoint_key(found.id, 'leases'), integer(now + tonumber(ARGV[4])), ARGV[3])
return answer('ok', {})
