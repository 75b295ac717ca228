-- Renews the lease of a running upload, and answers what a commit would be
-- refused with now, so that nobody sends gigabytes in vain.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  task id
-- ARGV[4]  epoch, "" is not checked
-- ARGV[5]  attempt
-- ARGV[6]  upload id
-- ARGV[7]  lease, ms
-- ARGV[8]  how many tasks a checkpoint may have
-- ARGV[9]  token of the import that makes the checkpoint, "" for a task (prelude_import.lua)
--
-- Body     nothing
-- Refusals those of begin_upload, and upload_lost
--
-- Second run: renews the lease again.

local id, task, epoch, attempt, upload = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lease, most = tonumber(ARGV[7]), tonumber(ARGV[8])

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = subject(id, ARGV[9])
if not rec then
  return refuse(absent(job, id, true))
end
settle(id, rec)
local refusal = upload_refusal(job, id, rec, task, epoch, attempt, most)
if not refusal and not running(id, upload) then
  refusal = { 'upload_lost' }
end
if refusal then
  return refuse(refusal)
end
redis.call('ZADD', base .. 'uploads', integer(now + lease), id .. ':' .. upload)
return answer('ok', {})
