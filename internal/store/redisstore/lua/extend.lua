-- Moves the deadline of a pending checkpoint to a later time; an earlier one, and a
-- checkpoint that never expires, stay as they are.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  ms from now
--
-- Body     view
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted
--          checkpoint_expired, checkpoint_aborted, checkpoint_completed: with next steps
-- Second run: would move the deadline once more, and is therefore never sent twice.

local id, more = ARGV[2], tonumber(ARGV[3])

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
local deadline = now + more
if rec.timeout > 0 and deadline > rec.start + rec.timeout then
  redis.call('HSET', base .. id, 'timeout', integer(deadline - rec.start), 'rev', integer(rec.rev + 1))
  redis.call('ZADD', base .. 'deadlines', integer(deadline), id)
end
return answer('ok', { view(id) })
