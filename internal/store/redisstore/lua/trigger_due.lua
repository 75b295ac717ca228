-- Makes a pending checkpoint if the job's schedule says so, and moves the schedule on. Of all
-- servers that ask at the same moment one finds it due.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   token of the call
-- ARGV[3]   what the caller has seen of the job, see floor_of
-- ARGV[4]   jitter, in [0, 1)
-- ARGV[5…11]  the server's defaults (prelude_settings.lua)
--
-- Body      { view } of the new checkpoint or {}, { due or "0", last result or "", its time or "0", last
--           id or "", triggered, skipped, missed }
-- Other words
--           again, exhausted: see find_place
--           unlisted: the tasks that the job's settings name are gone
-- Refusals  job_not_found
-- Second run: a call that changed something finds the kept answer. One that did not asks
--           anew, which triggers nothing that another call has triggered.

local token, floor, jitter = ARGV[2], floor_of(ARGV[3]), tonumber(ARGV[4])

local known = kept_answer(token)
if known then
  return known
end
local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end

local field = redis.call('HMGET', base .. 'job', 'due', 'sch_last', 'sch_at', 'sch_id', 'sch_triggered', 'sch_skipped', 'sch_missed')
local s = settings(5)
local due = tonumber(field[1] or '0')
local state = {
  last = field[2] or '', at = field[3] or '0', id = field[4] or '',
  triggered = tonumber(field[5] or '0'), skipped = tonumber(field[6] or '0'), missed = tonumber(field[7] or '0'),
}

local function reply(made)
  return answer('ok', { made, {
    integer(due), state.last, state.at, state.id, integer(state.triggered), integer(state.skipped), integer(state.missed),
  } })
end

-- Saves where the schedule stands after a tick that was due.
local function save(made)
  redis.call('HSET', base .. 'job', 'due', integer(due), 'sch_last', state.last, 'sch_at', state.at, 'sch_id', state.id,
    'sch_triggered', integer(state.triggered), 'sch_skipped', integer(state.skipped), 'sch_missed', integer(state.missed), noted(s))
  ends.expire_overdue(100)
  local done = reply(made)
  keep_answer(token, done)
  return done
end

if s.interval == 0 or s.paused then
  if due ~= 0 then
    redis.call('HDEL', base .. 'job', 'due')
    due = 0
  end
  return reply({})
end
if due == 0 or due > now + math.max(s.interval, s.pause) then
  due = mend_due(s, jitter, tonumber(state.at))
  redis.call('HSET', base .. 'job', 'due', integer(due), noted(s))
  local begun = reply({})
  keep_answer(token, begun)
  return begun
end
if now < due then
  return reply({})
end

-- A tick that is late by up to half a period keeps the rhythm; after a longer one it begins anew.
local late = now - due
local next_due = now + s.interval
if 2 * late <= s.interval then
  next_due = due + s.interval
else
  state.missed = state.missed + math.floor(late / s.interval)
end
local rested = s.pause > 0 and pause_ends(s.pause) or 0
if rested > now then
  due, state.last, state.at = rested, 'min_pause', integer(now)
  return save({})
end
if pending_now() >= s.cap then
  due, state.last, state.at, state.skipped = next_due, 'too_many_pending', integer(now), state.skipped + 1
  return save({})
end

local place, other = find_place(job, floor)
if not place then
  return other
end
if s.named > 0 and not list_is_whole(s.names, s.named) then
  return answer('unlisted', {})
end
local made = create(job, place, s, {
  token = token, required = s.required, timeout = s.timeout, tasks = s.named > 0 and 'job' or '',
  labels = '', desc = '', pinned = false,
})
due, state.last, state.at, state.id, state.triggered = next_due, 'triggered', integer(now), integer(place.id), state.triggered + 1
return save({ made })
