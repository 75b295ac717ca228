-- Reads a page of a checkpoint's tasks, in byte order of their ids.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  "acknowledged" or "missing"; "" is both where the trigger named the tasks, and
--          otherwise acknowledged ones, since nobody knows the others
-- ARGV[4]  last task id of the page before, "" for the first page
-- ARGV[5]  how many to answer at most
--
-- Body     view, { taskId, ack or "", part that waits for its ack or "", … } as stored
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted
-- Also     again, see prelude_sort.lua
--
-- Second run: reads only, but for what sort_acks moves.

local which, after, most = ARGV[3], ARGV[4], ARGV[5]
local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
if sort_acks(found.id) then
  return answer('again', {})
end
local id, names = found.id, found.rec.tasks

local source = checkpoint_key(id, 'acked')
if names == '' and which == 'missing' then
  return answer('ok', { view(id), {} })
elseif names ~= '' and which == 'missing' then
  source = base .. 'missing:' .. names
elseif names ~= '' and which == '' then
  source = base .. 'tasks:' .. names
end

local from = after == '' and '-' or '(' .. after
local tasks = redis.call('ZRANGEBYLEX', source, from, '+', 'LIMIT', 0, most)
local rows = {}
if #tasks > 0 then
  local acks = redis.call('HMGET', checkpoint_key(id, 'acks'), unpack(tasks))
  local parts = redis.call('HMGET', checkpoint_key(id, 'parts'), unpack(tasks))
  for i, task in ipairs(tasks) do
    rows[#rows + 1] = task
    rows[#rows + 1] = acks[i] or ''
    rows[#rows + 1] = not acks[i] and parts[i] or ''
  end
end
return answer('ok', { view(id), rows })
