-- Stages up to 1000 names of a long list of tasks under a token, for a trigger or the settings
-- of a job to adopt. What nothing adopts before the lease ends is left to the sweep.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  token
-- ARGV[3]  lease (ms from now)
-- ARGV[4]  "" for a trigger, which wants them in byte order, or the place of the first name in the
--          settings of a job, which keep their order
-- ARGV[5…] names
--
-- Body     empty
-- Refusals none
-- Second run: adds the same names again, unless they were adopted.

local token, place = ARGV[2], tonumber(ARGV[4])
-- A repeat that was held up on its way until the names were adopted must not lease them
-- again: the sweep would take them from their checkpoint.
if redis.call('EXISTS', base .. 'tasks:' .. token) == 1 and not redis.call('ZSCORE', base .. 'stages', token) then
  return answer('ok', {})
end
redis.call('ZADD', base .. 'stages', integer(now + tonumber(ARGV[3])), token)
local members = {}
for i = 5, #ARGV do
  members[#members + 1] = integer(place and place + i - 5 or 0)
  members[#members + 1] = ARGV[i]
end
redis.call('ZADD', base .. 'tasks:' .. token, unpack(members))
if not place then
  redis.call('ZADD', base .. 'missing:' .. token, unpack(members))
end
return answer('ok', {})
