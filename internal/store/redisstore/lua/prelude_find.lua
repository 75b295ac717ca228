-- Prelude of the scripts that read one checkpoint: after prelude.lua. It reads only.
--
-- Functions:
--   find(ref)    the checkpoint that ref names, an id or "latest": { job, id, rec }, with
--                rec.status derived (an overdue pending one reads as expired); or nil and
--                the refusal job_not_found, no_completed_checkpoint, checkpoint_not_found,
--                checkpoint_deleted, damaged: id, what it lacks, or all_set_aside: id
--   lost_completed()
--                the refusal damaged where the set …:completed was lost, or nil

-- A job none of whose checkpoints is in …:completed has completed none, unless the whole set was lost:
-- evicted, or deleted by hand. Then a fleet that heard of none would begin with nothing. Only what is
-- pending or has ended uncompleted is looked through, which is little.
local function lost_completed()
  if redis.call('EXISTS', base .. 'completed') == 1 then
    return nil
  end
  for _, id in ipairs(redis.call('ZREVRANGE', base .. 'index', 0, 999)) do
    local rec = read_record(id)
    if rec and rec.status == 'completed' then
      return { 'damaged', id, 'the list of completed checkpoints' }
    end
  end
  return nil
end

local function find(ref)
  local job = find_job()
  if not job then
    return nil, { 'job_not_found' }
  end
  local id, rec = ref, nil
  if ref == 'latest' then
    id, rec = latest_completed()
    if not id then
      return nil, rec or lost_completed() or { 'no_completed_checkpoint' }
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
