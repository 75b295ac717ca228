-- Prelude of acknowledge.lua alone, after prelude_call.lua: answers the call at once where it ends
-- nothing, before the functions of the other preludes are made.
-- Else it leaves id, token, limits, call, job, rec and plan: job and rec are nil where there is
-- none, plan is what acknowledge_quickly gives.

local call, id = read_call(2, #ARGV)
local token, limits = call.token, ARGV[4]
local job = find_job()
local rec = job and read_record(id)
local plan
if rec then
  local quick
  quick, plan = acknowledge_quickly(id, rec, job.epoch, call)
  if quick then
    return { 'ok', now, quick }
  end
end
