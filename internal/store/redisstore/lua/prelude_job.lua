-- Prelude of the scripts that answer a job whole: after prelude.lua. It reads only.
--
-- Functions:
--   job_view()    the job for parseJob (jobs.go): pending and not overdue, latest completed id or
--                 "", when it completed ("0" = none), { pairs of the job's hash }

local function job_view()
  local latest, rec = latest_completed()
  return { integer(pending_now()), latest or '', integer(latest and rec.ended or 0), redis.call('HGETALL', base .. 'job') }
end
