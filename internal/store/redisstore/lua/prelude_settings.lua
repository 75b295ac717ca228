-- Prelude of the scripts that look at a job's settings: after prelude.lua. It reads only.
--
-- The settings are fields of the job's hash, each absent where the server is to say: s_required,
-- s_timeout, s_interval, s_minpause, s_pending, s_tolerate, s_stale, s_keep, s_age, s_bytes, s_paused
-- ("1"), s_desc, and s_named and s_names, the number of tasks and the token of their list.
--
-- The server's defaults are seven arguments: required, timeout, interval, minimal pause, how many may
-- be pending, how many failures are tolerable, how many events to keep (appendDefaults, trigger.go).
--
-- Functions:
--   settings(first)         what holds for the job, its own settings over the defaults in ARGV[first …]:
--                           { required, timeout, interval, pause, cap, paused, named, names, tolerate,
--                           events }. interval is 0 or at least 50; named is 0 where any task may come;
--                           tolerate and events are the server's, for noted
--   noted(s)                fields of the job's hash for steps that nobody hands the defaults to
--   pause_ends(pause)       when the pause after the last completion is over, 0 = there is none
--   first_due(s, jitter)    when a schedule that begins now triggers first
--   begin_due(s, jitter, last)
--                           the same for one whose settings have changed; last is when its last tick was, 0 = there is
--                           none. It is never within half a period of that
--   mend_due(s, jitter, last)
--                           the same for one whose due time is lost: a period after its last tick if that is ahead
--   list_is_whole(token, count)
--                           whether a list of tasks is there as it was written

local function settings(first)
  local own = redis.call('HMGET', base .. 'job', 's_required', 's_timeout', 's_interval', 's_minpause', 's_pending',
    's_paused', 's_named', 's_names')
  local interval = tonumber(own[3] or ARGV[first + 2])
  local named = tonumber(own[7] or '0')
  return {
    required = named > 0 and named or tonumber(own[1] or ARGV[first]), 
    timeout = math.max(0, tonumber(own[2] or ARGV[first + 1])),
    interval = interval > 0 and math.max(interval, 50) or 0, pause = tonumber(own[4] or ARGV[first + 3]),
    cap = tonumber(own[5] or ARGV[first + 4]), paused = own[6] == '1', named = named, names = own[8] or '',
    tolerate = ARGV[first + 5], events = ARGV[first + 6],
  }
end

local function noted(s)
  return 'd_tolerate', s.tolerate, 'd_events', s.events
end

-- A completion that lies further ahead than a pause, after a step back of the clock, is not waited for.
local function pause_ends(pause)
  local completed = tonumber(redis.call('HGET', base .. 'job', 'okat') or '0')
  if completed == 0 or pause <= 0 or completed > now + pause then
    return 0
  end
  return completed + pause
end

local function first_due(s, jitter)
  return now + 1 + math.floor(jitter * s.interval)
end

-- A last tick that lies ahead, after a step back of the clock, tells nothing.
local function begin_due(s, jitter, last)
  local due = first_due(s, jitter)
  if last > 0 and last <= now then
    due = math.max(due, last + math.ceil(s.interval / 2))
  end
  return due
end

local function mend_due(s, jitter, last)
  if last > 0 and last <= now and last + s.interval > now then
    return last + s.interval
  end
  return first_due(s, jitter)
end

local function list_is_whole(token, count)
  return redis.call('ZCARD', base .. 'tasks:' .. token) == count
end
