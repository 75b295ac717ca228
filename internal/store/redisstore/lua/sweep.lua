-- Does for one job what no request waits for: writes expiry, applies retention where
-- leases had held it up, gives up uploads, staged names and checkpoints under import whose lease ran out.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  retention's limits of the server, "keep|age|bytes" (prelude_end.lua)
-- ARGV[3]  how many of each kind to handle, which bounds the run
--
-- Body     "1" when the same call would find more to do else "0", how much garbage waits
--          for drain, when there will be something to do though the job's hash stays as it
--          is (ms; the past is at once, "" is never)
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

local imports = redis.call('ZRANGEBYSCORE', base .. 'importing', '-inf', late, 'LIMIT', 0, step)
for _, id in ipairs(imports) do
  drop_import(id)
end

local more = #evicted > 0 or #imports == step or #uploads == step or #stages == step
  or #redis.call('ZRANGEBYSCORE', base .. 'deadlines', '-inf', late, 'LIMIT', 0, 1) > 0

-- When retention has work: at once where more are kept than should be, which a lease must have
-- held up; else when the oldest one is too old. Leases go without a trace in the job's hash.
local function retention_due()
  local places = redis.call('ZCARD', base .. 'retained')
  if places <= 1 then
    return math.huge
  end
  local own = redis.call('HMGET', base .. 'job', 's_keep', 's_age', 's_bytes', 'rbytes')
  local keep, age, bytes = string.match(limits, '^(%d+)|(%d+)|(%d+)$')
  keep, age, bytes = tonumber(own[1] or keep), tonumber(own[2] or age), tonumber(own[3] or bytes)
  if keep > 0 and places > keep or bytes > 0 and tonumber(own[4] or '0') > bytes then
    return now
  end
  local due = math.huge
  if age > 0 then
    for _, id in ipairs(redis.call('ZRANGE', base .. 'retained', 0, math.min(places - 2, 999))) do
      local rec = read_record(id)
      if rec then
        due = math.min(due, rec.ended + age + 1)
      end
    end
  end
  return due
end

local function first_of(index)
  local first = redis.call('ZRANGE', base .. index, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) + 1 or math.huge
end

local due = math.min(first_of('deadlines'), first_of('uploads'), first_of('stages'), first_of('importing'), retention_due())
return answer('ok', { more and '1' or '0', integer(redis.call('ZCARD', base .. 'garbage')), due < math.huge and integer(due) or '' })
