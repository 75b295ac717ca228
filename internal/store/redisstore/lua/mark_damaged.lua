-- Notes what a completed checkpoint was found to lack: it is nobody's latest from then on, and
-- retention leaves it alone.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  what it lacks
-- ARGV[4]  the name of who found it, for the events
--
-- Body     nothing, also where there is no such checkpoint or it is not completed
-- Refusals none
--
-- Second run: finds it marked.

local id = ARGV[2]
caller = ARGV[4]

local rec = find_job() and read_record(id)
if not rec or rec.status ~= 'completed' or rec.damage ~= '' then
  return answer('ok', {})
end
allow_full()
ends.release(id, rec)
redis.call('HSET', rec.key, 'damage', ARGV[3], 'rev', integer(rec.rev + 1))
events.checkpoint('updated', id, rec)
return answer('ok', {})
