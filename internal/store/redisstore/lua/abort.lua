-- Ends a pending checkpoint as aborted, by hand or as a task's decline.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  task that declines, "" = nobody
-- ARGV[4]  attempt
-- ARGV[5]  epoch ("" = unchecked)
-- ARGV[6]  message
-- ARGV[7]  token of the call
-- ARGV[8]  the name of who asks, for the events; may be left out
--
-- Body     view
-- Refusals job_not_found; task_not_expected; stale_epoch; stale_attempt
--          checkpoint_not_found, checkpoint_deleted, checkpoint_expired, checkpoint_completed: with
--          next steps
-- Second run: an aborted checkpoint stays as it is; the call's own token is known. Where it went
--          in the same step, the kept answer.

local id, task, attempt, epoch, message, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
caller = ARGV[8] or ''
local reason = task ~= '' and 'declined' or 'aborted'

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id)
if not rec then
  return kept_answer(token) or refuse(absent(job, id, true))
end
settle(id, rec)
if rec.status == 'aborted' and rec.token == token then
  report_end(before, id, rec, reason)
  return answer('ok', { view(id) })
end
local refusal = check_sender(job, id, rec, task, epoch, attempt)
if refusal then
  return refuse(refusal)
end
if rec.status == 'aborted' then
  return answer('ok', { view(id) })
end
if rec.status ~= 'pending' then
  return refuse(ended_refusal(rec))
end

-- What was overdue by now ended before, and is told and counted before.
ends.expire_overdue(100)
ends.end_uncompleted(id, rec, { status = 'aborted', reason = reason, task = task, message = message, token = token })
if task ~= '' then
  record_attempt(task, attempt)
end
-- Answering may remove it, where newer ones ended uncompleted before it.
local reply = answer('ok', { view(id) })
if removed[id] then
  keep_answer(token, reply)
end
return reply
