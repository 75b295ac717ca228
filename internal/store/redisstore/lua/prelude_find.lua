-- Prelude of the scripts that read one checkpoint: after prelude.lua. It reads only.
--
-- Functions:
--   find(ref)    the checkpoint that ref names, an id or "latest": { job, id, rec }, with
--                rec.status derived (an overdue pending one reads as expired); or nil and
--                the refusal job_not_found, no_completed_checkpoint, checkpoint_not_found or
--                checkpoint_deleted

local function find(ref)
  local job = find_job()
  if not job then
    return nil, { 'job_not_found' }
  end
  local id, rec = ref, nil
  if ref == 'latest' then
    id, rec = latest_completed()
    if not id then
      return nil, { 'no_completed_checkpoint' }
    end
  else
    rec = read_record(id)
  end
  if not rec then
    return nil, absent(job, id)
  end
  if overdue(rec) then
    rec.status = 'expired'
  end
  return { job = job, id = id, rec = rec }
end
