-- Checks that a task may hand in a part now, and names the upload in the
-- leased index before its first chunk, so that chunks of a broken upload are found.
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
-- Refusals job_not_found; checkpoint_not_found, checkpoint_deleted: current id or "",
--          latest id or ""; task_not_expected: task; stale_epoch: given, current;
--          stale_attempt: task, given, highest; checkpoint_expired, checkpoint_aborted,
--          checkpoint_completed: current id or "", latest id or ""; ack_conflict: task;
--          limit_exceeded: most
--
-- Second run: names the same upload again and renews its lease, unless it was committed.

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
if refusal then
  return refuse(refusal)
end
-- A repeat that was held up on its way until after the commit must not name the upload
-- again: the sweeper would unlink the chunks of a part.
local part = redis.call('HGET', checkpoint_key(id, 'parts'), task)
if part and names_upload(part, upload) then
  return answer('ok', {})
end
redis.call('ZADD', base .. 'uploads', integer(now + lease), id .. ':' .. upload)
return answer('ok', {})
