-- Reads a job: its gauges, its settings but for the names of tasks, its failures, its
-- schedule, and the end of its log.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
--
-- Body     the job as job_view gives it
-- Refusals job_not_found
-- Second run: reads only.

if not find_job() then
  return refuse({ 'job_not_found' })
end
return answer('ok', { job_view() })
