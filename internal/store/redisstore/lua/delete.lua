-- Removes a checkpoint; a pending one ends as aborted first. Of one without a whole record it removes what
-- is left, so that latest and recovery no longer meet it.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  "1" also removes a pinned one
-- ARGV[4]  "1" demands that the checkpoint does not exist
-- ARGV[5]  number of tags one of which it must have; then the tags, then the name of who asks, for
--          the events; the latter may be left out
--
-- Body     empty
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted, precondition_failed, pinned
-- Second run: would be told that the checkpoint is gone; never sent twice.

local id, force, tags = ARGV[2], ARGV[3] == '1', tonumber(ARGV[5])
caller = ARGV[6 + tags] or ''

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id) or ends.remnant(id)
if not rec then
  return refuse(absent(job, id))
end
settle(id, rec)
if not met(id .. '-' .. integer(rec.rev), ARGV[4] == '1', 6, tags) then
  return refuse({ 'precondition_failed' })
end
if rec.pinned and not force then
  return refuse({ 'pinned' })
end

ends.evict(id, rec, 'aborted', 'request')
return answer('ok', {})
