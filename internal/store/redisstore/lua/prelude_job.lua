-- Prelude of the scripts that answer a job whole: after prelude.lua. It reads only.
--
-- Functions:
--   job_view()    the job for parseJob (jobs.go): pending and not overdue, latest completed id or
--                 "", when it completed ("0" = none), { pairs of the job's hash }

local function job_view()
  local latest, at = latest_completed() or '', 0
  if latest ~= '' then
    at = read_record(latest).ended
  end
  return { integer(pending_now()), latest, integer(at), redis.call('HGETALL', base .. 'job') }
end
