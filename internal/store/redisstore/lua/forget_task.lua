-- Forgets the highest attempt of a task.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  task id
-- ARGV[3]  token of the call
--
-- Body     nothing, also where there was nothing to forget
-- Refusals job_not_found
-- Second run: finds the kept answer, and leaves what was heard of the task since.

local task, token = ARGV[2], ARGV[3]

local known = kept_answer(token)
if known then
  return known
end
if not find_job() then
  return refuse({ 'job_not_found' })
end
-- Needs no memory, and opens the writes of a full Redis.
redis.call('HDEL', base .. 'attempts', task)
local reply = answer('ok', {})
keep_answer(token, reply)
return reply
