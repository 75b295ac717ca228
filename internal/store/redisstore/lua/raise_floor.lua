-- Raises the counters of a job that are behind what a server has seen, or missing from its hash: Redis has lost something,
-- and another server, which has not seen it, might be the next one to ask for an id.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  what the caller has seen of the job, see floor_of
--
-- Body     "1" if something was behind
-- Refusals none
--
-- A job that is not there comes to no life by it: it is as one that was deleted, whose
-- counters stay.
-- Second run: finds nothing behind.

local job, floor = read_job(), floor_of(ARGV[2])
if floor.id < job.next and floor.epoch <= job.epoch and not job.lost then
  return answer('ok', { '0' })
end
local had = redis.call('HMGET', base .. 'job', 'runid', 'evfloor')
local next = job.next
if job.lost or floor.id >= next then
  next = first_id(job, floor, had[1])
end
allow_full()
redis.call('HSET', base .. 'job', 'next', integer(next), 'epoch', integer(math.max(job.epoch, floor.epoch)),
  'evfloor', integer(math.max(tonumber(had[2] or '0'), floor.seq + 1000)))
if job.lost then
  redis.call('HSET', base .. 'job', 'eprun', 'lost')
end
if not job.known then
  redis.call('HSET', base .. 'job', 'gone', '1')
end
return answer('ok', { '1' })
