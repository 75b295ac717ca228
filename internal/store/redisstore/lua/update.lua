-- Changes labels, description and pin of a checkpoint in any status, and sets a completed one aside
-- or takes it back. Unpinning and taking back evict nothing at once; the next retention does.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  "1" sets the labels to ARGV[4] (JSON, "" = none)
-- ARGV[5]  "1" sets the description to ARGV[6]
-- ARGV[7]  "1" pins, "0" unpins, "" leaves the pin
-- ARGV[8]  "1" demands that the checkpoint does not exist
-- ARGV[9]  number of tags one of which it must have; then the tags, then the name of who asks, for
--          the events, then "1" to take the mark of damage away, then "1" to set aside, "0" to take
--          back, "" to leave that; the latter three may be left out
--
-- Body     view
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted, precondition_failed
--          checkpoint_not_completed: status; to setting aside what is not
-- Second run: under a condition the first one would refuse it; never sent twice.

local id, pin, tags = ARGV[2], ARGV[7], tonumber(ARGV[9])
caller = ARGV[10 + tags] or ''
local repaired, aside = ARGV[11 + tags] == '1', ARGV[12 + tags] or ''

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id)
if not rec then
  return refuse(absent(job, id))
end
settle(id, rec)
if not met(id .. '-' .. integer(rec.rev), ARGV[8] == '1', 10, tags) then
  return refuse({ 'precondition_failed' })
end
if aside == '1' and rec.status ~= 'completed' then
  return refuse({ 'checkpoint_not_completed', rec.status })
end

local changes = { 'rev', integer(rec.rev + 1) }
local function change(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end
if ARGV[3] == '1' then
  change('labels', ARGV[4])
end
if ARGV[5] == '1' then
  change('desc', ARGV[6])
end
if pin ~= '' then
  change('pinned', pin)
  rec.pinned = pin == '1'
end
if aside ~= '' then
  change('aside', aside)
  rec.aside = aside == '1'
end
redis.call('HSET', rec.key, unpack(changes))
if repaired and rec.status == 'completed' then
  redis.call('HDEL', rec.key, 'damage')
  redis.call('ZADD', base .. 'completed', id, id) -- which may be what was lost
  rec.damage = ''
end

-- What retention counts are the usable unpinned, what the trimming of ended ones counts the unpinned.
if pin == '1' then
  redis.call('SADD', base .. 'pinned', id)
elseif pin == '0' then
  redis.call('SREM', base .. 'pinned', id)
end
if rec.status == 'completed' then
  if rec.pinned or not usable(rec) then
    ends.release(id, rec)
  else
    ends.retain(id, rec)
  end
elseif rec.status ~= 'pending' and pin == '1' then
  redis.call('ZREM', base .. 'remains', id)
elseif rec.status ~= 'pending' and pin == '0' then
  redis.call('ZADD', base .. 'remains', id, id)
end
events.checkpoint('updated', id, rec)
return answer('ok', { view(id) })
