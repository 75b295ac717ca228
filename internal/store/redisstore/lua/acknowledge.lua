-- Acknowledges a pending checkpoint for 1 to 1000 tasks as one step; the last missing
-- acknowledgement completes it and applies retention. The items may be those of several callers.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  token of the call
-- ARGV[4]  retention's limits of the server, "keep|age|bytes" (prelude_end.lua)
-- ARGV[5]  number of items
-- ARGV[6]  attempt, and
-- ARGV[7]  epoch ("" = unchecked) of every item that is not listed below
-- ARGV[8]  … the task of each item; then for each item that differs, or has a digest or a part,
--          its number from 1, attempt, epoch, digest ("" = none), chunks ("" = no part), and with
--          chunks: bytes, entries, digest, then the chunks
--
-- Body     see outcomes in prelude_judge.lua
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted (with next steps)
--          inconsistent: id, what makes no sense; where the record counts other acknowledgements than are listed
--          when the last one comes, or is not whole
-- Second run: see prelude_ack.lua; where a bulk was accepted in part, or the checkpoint went in
--          the same step, the kept answer.

if not job then
  return refuse({ 'job_not_found' })
end
local known = (not rec or call.n > 1 and not (plan and not plan.recalled)) and kept_answer(token)
if known then
  return known
end
if not rec then
  return refuse(absent(job, id, true))
end

settle(id, rec)
plan = plan or judge_items(id, rec, job.epoch, call)
local contradiction = contradicts(id, rec, plan)
if contradiction then
  return refuse(contradiction)
end
local reply = answer('ok', acknowledge_items(id, rec, call, plan, limits))
-- What was refused or a duplicate was so at its place in the order, which is over.
if removed[id] or plan.accepted > 0 and plan.accepted < call.n then
  keep_answer(token, reply)
end
return reply
