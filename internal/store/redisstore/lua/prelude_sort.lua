-- Prelude of the scripts that read tasks in order, and of those that complete checkpoints: after
-- prelude_base.lua.
--
-- To keep a task in order costs as much as all else that is kept of its acknowledgement, and
-- hardly anybody reads the tasks of a pending checkpoint. So an acknowledgement appends its task to the
-- list …:unsorted, and whoever wants the order moves that into the sorted set …:acked first.
--
-- Functions:
--   sort_acks(id)   moves up to 1000 tasks, and tells whether some are left. A script that reads them
--                   in order answers "again" then, which has no body, and is called again

local function sort_acks(id)
  local list = checkpoint_key(id, 'unsorted')
  local tasks = redis.pcall('LRANGE', list, 0, 999)
  -- A value of another type is not ours: nothing is in it.
  if tasks.err or #tasks == 0 then
    return false
  end
  -- What frees memory comes first, so that reading goes on when Redis is full.
  redis.call('LTRIM', list, 1000, -1)
  local members = {}
  for i, task in ipairs(tasks) do
    members[2 * i - 1], members[2 * i] = '0', task
  end
  redis.call('ZADD', checkpoint_key(id, 'acked'), unpack(members))
  return #tasks == 1000 and redis.call('EXISTS', list) == 1
end
