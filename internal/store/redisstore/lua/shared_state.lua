-- Reads the whole shared state of a checkpoint.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  how many keys, and
-- ARGV[4]  how many restore bytes to answer at most: Lua copies what it answers
--
-- Body     view, "1", { key, value, … } in no order; or view, "0", {} for more than that
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted,
--          checkpoint_expired and checkpoint_aborted: current id or "", latest id or ""
--
-- Second run: reads only.

local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
if found.rec.status == 'expired' or found.rec.status == 'aborted' then
  return refuse(ended_refusal(found.rec))
end
local size = redis.call('HMGET', found.rec.key, 'sentries', 'sbytes')
if tonumber(size[1] or '0') > tonumber(ARGV[3]) or tonumber(size[2] or '0') > tonumber(ARGV[4]) then
  return answer('ok', { view(found.id), '0', {} })
end
return answer('ok', { view(found.id), '1', redis.call('HGETALL', checkpoint_key(found.id, 'state')) })
