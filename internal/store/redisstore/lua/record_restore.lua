-- Adds a transfer of a snapshot to the job's history.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  token of the call
-- ARGV[3]  checkpoint id
-- ARGV[4]  bytes that were moved
-- ARGV[5]  "1" = to its end
-- ARGV[6]  who asked
-- ARGV[7]  how many a job remembers
--
-- Body     nothing, also where there is no such job
-- Refusals none
-- Second run: finds the kept answer.

local known = kept_answer(ARGV[2])
if known then
  return known
end
if not find_job() then
  return answer('ok', {})
end
redis.call('LPUSH', base .. 'restores', table.concat({ ARGV[3], integer(now), ARGV[4], ARGV[5], ARGV[6] }, '|'))
redis.call('LTRIM', base .. 'restores', 0, tonumber(ARGV[7]) - 1)
-- A foreign value under the name of the counts must not break off what was written before.
redis.pcall('HINCRBY', base .. 'stats', 'restores', 1)
redis.pcall('HINCRBY', base .. 'stats', 'restored', ARGV[4])
local reply = answer('ok', {})
keep_answer(ARGV[2], reply)
return reply
