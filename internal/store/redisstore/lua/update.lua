-- Changes labels, description and pin of a checkpoint in any status. Unpinning evicts
-- nothing at once; the next retention does.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  "1" sets the labels to ARGV[4] (JSON, "" = none)
-- ARGV[5]  "1" sets the description to ARGV[6]
-- ARGV[7]  "1" pins, "0" unpins, "" leaves the pin
-- ARGV[8]  "1" demands that the checkpoint does not exist
-- ARGV[9]  number of tags one of which it must have; then the tags
--
-- Body     view
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted, precondition_failed
-- Second run: under a condition the first one would refuse it; never sent twice.

local id, pin = ARGV[2], ARGV[7]

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id)
if not rec then
  return refuse(absent(job, id))
end
settle(id, rec)
if not met(id .. '-' .. integer(rec.rev), ARGV[8] == '1', 10, tonumber(ARGV[9])) then
  return refuse({ 'precondition_failed' })
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
end
redis.call('HSET', base .. id, unpack(changes))

-- What retention and the trimming of ended ones count are the unpinned.
if pin == '1' then
  redis.call('SADD', base .. 'pinned', id)
  ends.release(id, rec)
  redis.call('ZREM', base .. 'remains', id)
elseif pin == '0' then
  redis.call('SREM', base .. 'pinned', id)
  -- No event tells of it, and a sweep has to see that there may be too many now.
  redis.call('HINCRBY', base .. 'job', 'unpins', 1)
  if rec.status == 'completed' then
    ends.retain(id, rec)
  elseif rec.status ~= 'pending' then
    redis.call('ZADD', base .. 'remains', id, id)
  end
end
return answer('ok', { view(id) })
