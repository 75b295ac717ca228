-- Prelude of the scripts that give ids and epochs: after prelude_event.lua. A Redis that lost what
-- it had confirmed, as a replica does in the place of its master, must not give any of them again. It
-- shows as another server than the one that gave the last, or as one that knows less than a
-- caller has seen. What was given since the last look of any caller is then passed over by a
-- wide margin.
--
-- Functions:
--   floor_of(text)            what a caller has seen of the job, "id|epoch|seq" (floors.go), as { id,
--                             epoch, seq }: the highest id (-1 = none), epoch and number of an event.
--                             Only the id need be there
--   lost(stored, behind)      whether something may be lost: stored is the run_id of the server that gave the
--                             last one, behind whether the caller has seen a later one
--   first_id(job, floor, stored)
--                             the next id that is safe to give, and whether some may be lost
--   next_epoch(job, floor)    the next epoch that is safe to give

local function floor_of(text)
  local id, rest = string.match(text or '', '^(-?%d+)|?(.*)$')
  local epoch, seq = string.match(rest or '', '^(%d+)|(%d+)$')
  return { id = tonumber(id or '-1'), epoch = tonumber(epoch or '0'), seq = tonumber(seq or '0') }
end

local function lost(stored, behind)
  local running = events.running()
  return stored and running ~= '' and stored ~= running or behind and not (stored and stored == running)
end

local function first_id(job, floor, stored)
  local id = math.max(job.next, floor.id + 1)
  if job.lost or lost(stored, floor.id >= job.next) then
    return id + 1000, true
  end
  return id, false
end

local function next_epoch(job, floor)
  local stored = redis.call('HGET', base .. 'job', 'eprun')
  local epoch = math.max(job.epoch, floor.epoch) + 1
  if job.lost or lost(stored, floor.epoch > job.epoch) then
    return epoch + 1000
  end
  return epoch
end
