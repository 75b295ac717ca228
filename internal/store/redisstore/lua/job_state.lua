-- Reads what gauges and the floor of ids need of a job.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
--
-- Body     epoch, next id, pending and not overdue, latest completed id or "", when it
--          completed (ms, "0" = none)
-- Refusals job_not_found
-- Second run: reads only.

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local pending = redis.call('ZCARD', base .. 'pending') - redis.call('ZCOUNT', base .. 'deadlines', '-inf', '(' .. integer(now))
local latest, at = latest_completed() or '', 0
if latest ~= '' then
  at = read_record(latest).ended
end
return answer('ok', { integer(job.epoch), integer(job.next), integer(pending), latest, integer(at) })
