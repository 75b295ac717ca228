-- Removes unpinned checkpoints until as many as wanted survive: first those that did not
-- complete, then completed ones, oldest first each. What a restore or a recovery holds
-- is skipped, and counts among the survivors.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  how many are to survive
-- ARGV[3]  how many may go in this step
-- ARGV[4]  "1" only answers what would go
-- ARGV[5]  the name of who asks, for the events; may be left out
--
-- Body     array of ids that go, array of ids skipped, unpinned ones that are left,
--          "1" if another step would remove more
-- Refusals job_not_found
-- Second run: would go on with the next ones; never sent twice.

local keep, most, dry = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
caller = ARGV[5] or ''

if not find_job() then
  return refuse({ 'job_not_found' })
end
if not dry then
  ends.expire_overdue(1000)
  ends.trim_ended()
end

local uncompleted = redis.call('ZRANGE', base .. 'remains', 0, -1)
for _, id in ipairs(redis.call('ZRANGE', base .. 'pending', 0, -1)) do
  if redis.call('SISMEMBER', base .. 'pinned', id) == 0 then
    uncompleted[#uncompleted + 1] = id
  end
end
table.sort(uncompleted, function(a, b)
  return tonumber(a) < tonumber(b)
end)

local kept = #uncompleted + redis.call('ZCARD', base .. 'retained')
-- Also where a newer one makes no sense, so that nobody can say that it is not the latest.
local latest
for _, id in ipairs(keep > 0 and redis.call('ZREVRANGE', base .. 'retained', 0, 999) or {}) do
  local rec = read_record(id)
  if rec and rec.version <= RESTORABLE then
    latest = id
    break
  end
end
local going, skipped, more = {}, {}, false

-- Decides over one candidate; true ends the walk.
local function consider(id)
  if kept <= keep then
    return true
  end
  local rec = read_record(id)
  if not rec then
    kept = kept - 1
    local left = not dry and ends.remnant(id)
    if left and left.status ~= 'completed' then
      ends.evict(id, left, 'evicted', 'cleanup')
    elseif not dry then
      ends.pass_over(id)
    end
  elseif ends.leased(id) then
    skipped[#skipped + 1] = id
  elseif id == latest then
    -- Where leased ones hold all places, a fleet must still find what to restore.
    return false
  elseif #going == most then
    more = true
    return true
  else
    going[#going + 1] = { id = id, rec = rec }
    kept = kept - 1
  end
  return false
end

local done = false
for _, id in ipairs(uncompleted) do
  done = done or consider(id)
end
local from = 0
while not done do
  local ids = redis.call('ZRANGE', base .. 'retained', from, from + 99)
  for _, id in ipairs(ids) do
    done = done or consider(id)
  end
  done = done or #ids < 100
  from = from + 100
end

local deleted = {}
for i, one in ipairs(going) do
  deleted[i] = one.id
  if not dry then
    ends.evict(one.id, one.rec, 'evicted', 'cleanup')
  end
end
return answer('ok', { deleted, skipped, integer(kept), more and '1' or '0' })
