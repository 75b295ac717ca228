-- Moves the deadline of a pending checkpoint to a later time; an earlier one, and a
-- checkpoint that never expires, stay as they are.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  ms from now
-- ARGV[4]  the name of who asks, for the events; may be left out, as may the others
-- ARGV[5]  how many times the timeout of its trigger the deadline may lie behind its start
-- ARGV[6]  the longest timeout (ms) that there is
--
-- Body     view
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted
--          too_far: ms asked for, ms that are left
--          checkpoint_expired, checkpoint_aborted, checkpoint_completed: with next steps
-- Second run: would move the deadline once more, and is therefore never sent twice.

local id, more = ARGV[2], tonumber(ARGV[3])
local factor, longest = tonumber(ARGV[5] or '100'), tonumber(ARGV[6] or '9007199254740991')
caller = ARGV[4] or ''

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id)
if not rec then
  return refuse(absent(job, id))
end
settle(id, rec)
if rec.status ~= 'pending' then
  return refuse(ended_refusal(rec))
end
if rec.timeout <= 0 then
  return answer('ok', { view(id) })
end
local triggered = tonumber(redis.call('HGET', rec.key, 'triggered') or rec.timeout)
local left = triggered > longest / factor and longest or math.max(0, rec.start + factor * triggered - now)
if more > left then
  return refuse({ 'too_far', integer(more), integer(left) })
end
local deadline = now + more
if deadline > rec.start + rec.timeout then
  rec.timeout = deadline - rec.start
  redis.call('HSET', base .. id, 'timeout', integer(rec.timeout), 'rev', integer(rec.rev + 1), 'triggered', integer(triggered))
  redis.call('ZADD', base .. 'deadlines', integer(deadline), id)
  events.checkpoint('extended', id, rec)
end
return answer('ok', { view(id) })
