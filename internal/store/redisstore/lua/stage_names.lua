-- Stages up to 1000 names of a long list of tasks under a token, for a trigger to adopt.
-- What no trigger adopts before the lease ends is left to the sweep.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  token
-- ARGV[3]  lease (ms from now)
-- ARGV[4…] names
--
-- Body     empty
-- Refusals none
-- Second run: adds the same names again, unless a trigger has adopted them.

local token = ARGV[2]
-- A repeat that was held up on its way until the trigger had adopted the names must not
-- lease them again: the sweep would take them from their checkpoint.
if redis.call('EXISTS', base .. 'tasks:' .. token) == 1 and not redis.call('ZSCORE', base .. 'stages', token) then
  return answer('ok', {})
end
redis.call('ZADD', base .. 'stages', integer(now + tonumber(ARGV[3])), token)
local members = {}
for i = 4, #ARGV do
  members[#members + 1] = 0
  members[#members + 1] = ARGV[i]
end
redis.call('ZADD', base .. 'tasks:' .. token, unpack(members))
redis.call('ZADD', base .. 'missing:' .. token, unpack(members))
return answer('ok', {})
