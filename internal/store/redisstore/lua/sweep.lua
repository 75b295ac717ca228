-- Does for one job what no request waits for: writes expiry, applies retention where
-- leases had held it up, gives up uploads and staged names whose lease ran out.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  retention's limits of the server, "keep|age|bytes" (prelude_end.lua)
-- ARGV[3]  how many of each kind to handle, which bounds the run
--
-- Body     "1" when the same call would find more to do else "0", how much garbage waits
--          for drain
-- Refusals none
--
-- Second run: what is done is not found again; the same holds for two servers sweeping.

local limits, step = ARGV[2], tonumber(ARGV[3])
local late = '(' .. integer(now)

ends.expire_overdue(step)
ends.apply_retention(limits, 1000)

local uploads = redis.call('ZRANGEBYSCORE', base .. 'uploads', '-inf', late, 'LIMIT', 0, step)
for _, member in ipairs(uploads) do
  local id, upload = string.match(member, '^(%d+):(.*)$')
  if id then
    abandon_upload(id, upload)
  else
    redis.call('ZREM', base .. 'uploads', member)
  end
end

local stages = redis.call('ZRANGEBYSCORE', base .. 'stages', '-inf', late, 'LIMIT', 0, step)
for _, token in ipairs(stages) do
  redis.call('UNLINK', base .. 'tasks:' .. token, base .. 'missing:' .. token)
  redis.call('ZREM', base .. 'stages', token)
end

local more = #evicted > 0 or #uploads == step or #stages == step
  or #redis.call('ZRANGEBYSCORE', base .. 'deadlines', '-inf', late, 'LIMIT', 0, 1) > 0
return answer('ok', { more and '1' or '0', integer(redis.call('ZCARD', base .. 'garbage')) })
