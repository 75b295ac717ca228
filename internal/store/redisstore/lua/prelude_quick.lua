-- Prelude of acknowledge.lua alone, after prelude_judge.lua: answers the call at once where it ends
-- nothing, which is what most calls do, before the functions of the other preludes are made.
-- Else it leaves call, job, rec and plan: job and rec are nil where there is none, plan is nil
-- where the checkpoint is not, or not any more, simply pending.
--
-- Calls that were accepted in part are left to acknowledge.lua too, since it keeps their answer,
-- and so are those that run a second time.

local id, token, limits = ARGV[2], ARGV[3], ARGV[4]
local call = {
  token = token, n = tonumber(ARGV[5]), attempt = ARGV[6], number = tonumber(ARGV[6]), epoch = ARGV[7], digest = '',
  first = 8, details = {},
}
local at = 8 + call.n
while ARGV[at] do
  local item = { attempt = ARGV[at + 1], number = tonumber(ARGV[at + 1]), epoch = ARGV[at + 2], digest = ARGV[at + 3] }
  local chunks = tonumber(ARGV[at + 4])
  call.details[tonumber(ARGV[at])] = item
  at = at + 5
  if chunks then
    item.part = { chunks = chunks, bytes = ARGV[at], entries = ARGV[at + 1], digest = ARGV[at + 2], first = at + 3 }
    at = at + 3 + chunks
  end
end

local job = find_job()
local rec = job and read_record(id)
local plan
if rec and rec.status == 'pending' and now >= rec.start and not overdue(rec) then
  plan = judge_items(id, rec, job.epoch, call)
  if plan.status == 'pending' and not plan.recalled and (plan.accepted == call.n or plan.accepted == 0) then
    write_accepted(id, rec, call, plan)
    return { 'ok', now, outcomes(rec, plan) }
  end
end
