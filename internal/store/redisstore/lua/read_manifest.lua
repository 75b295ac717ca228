-- Reads acknowledgements of a checkpoint with the parts that they count.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   checkpoint id
-- ARGV[3]   "page" reads in byte order of the task ids; "tasks" reads the named ones
-- ARGV[4]   with "page": last task id of the page before, "" for the first page
-- ARGV[5]   with "page": how many to answer at most
-- ARGV[4]…  with "tasks": the task ids, at most 1000
--
-- Body     taskId, ack or "", part or "", … as stored; of a task without ack "named" in place of the part where the
--          trigger named it
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted
-- Also     again, see prelude_sort.lua
--
-- Second run: reads only, but for what sort_acks moves.

local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
local tasks, names = {}, found.rec.tasks
if ARGV[3] == 'page' then
  if sort_acks(found.id) then
    return answer('again', {})
  end
  local from = ARGV[4] == '' and '-' or '(' .. ARGV[4]
  tasks = redis.call('ZRANGEBYLEX', checkpoint_key(found.id, 'acked'), from, '+', 'LIMIT', 0, ARGV[5])
else
  for i = 4, #ARGV do
    tasks[#tasks + 1] = ARGV[i]
  end
end
local rows = {}
if #tasks > 0 then
  local acks = redis.call('HMGET', checkpoint_key(found.id, 'acks'), unpack(tasks))
  local parts = redis.call('HMGET', checkpoint_key(found.id, 'parts'), unpack(tasks))
  for i, task in ipairs(tasks) do
    rows[#rows + 1] = task
    rows[#rows + 1] = acks[i] or ''
    local named = not acks[i] and names ~= '' and redis.call('ZSCORE', base .. 'tasks:' .. names, task)
    rows[#rows + 1] = named and 'named' or parts[i] or ''
  end
end
return answer('ok', rows)
