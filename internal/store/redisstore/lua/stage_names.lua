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
-- Second run: adds the same names again.

local token = ARGV[2]
redis.call('ZADD', base .. 'stages', integer(now + tonumber(ARGV[3])), token)
local members = {}
for i = 4, #ARGV do
  members[#members + 1] = 0
  members[#members + 1] = ARGV[i]
end
redis.call('ZADD', base .. 'tasks:' .. token, unpack(members))
redis.call('ZADD', base .. 'missing:' .. token, unpack(members))
return answer('ok', {})
