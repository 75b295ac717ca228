-- Makes a pending checkpoint, or finds the one that the same Idempotency-Key, or the same
-- call, made before. What the caller left open the job's settings say, and then the server's.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   name of the record of repeats, "<verb>:<hash>"
-- ARGV[3]   its time to live (ms)
-- ARGV[4]   token of the call
-- ARGV[5]   fingerprint of the request
-- ARGV[6]   what the caller has seen of the job, see floor_of
-- ARGV[7]   "1" when the caller has put the job into the list of jobs
-- ARGV[8]   required acknowledgements, "0" = left open
-- ARGV[9]   timeout (ms, "0" = never), "" = left open
-- ARGV[10]  "1" passes the pause after a completion
-- ARGV[11]  labels (JSON, "" = none)
-- ARGV[12]  description
-- ARGV[13]  "1" = pinned
-- ARGV[14…20]  the server's defaults (prelude_settings.lua)
-- ARGV[21]  the name of who asks, for the events
-- ARGV[22]  number of named tasks, "0" = none are named
-- ARGV[23…] their names, at most 1000; none when they are staged under the token
--
-- Body      view, "1" if repeated by another call
-- Other words
--           register: the job is new, or was deleted; put it into the list of jobs, then call again
--           again, exhausted: see find_place
--           restage: the staged names are gone; stage them again, then call again
--           unlisted: the tasks that the job's settings name are gone
-- Refusals  tasks_named: how many tasks the settings name, which the caller asks another number of
--           min_pause: ms until the pause is over, ms until the first deadline where as many are
--             pending as may be, else "0"
--           too_many_pending: pending, how many may be, ms until the first deadline or "0"
--           idempotency_key_reused
--           idempotency_target_deleted: id
--           inconsistent: id, what makes no sense; where the checkpoint that the key stands for has no whole record
-- Second run: finds the record of repeats, and in it its own token.

local repeat_name, repeat_ttl, token, fingerprint = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local floor, registered, named = floor_of(ARGV[6]), ARGV[7] == '1', tonumber(ARGV[22])
local staged = named > 0 and #ARGV < 23
caller = ARGV[21]

local function drop_staged()
  if staged then
    redis.call('UNLINK', base .. 'tasks:' .. token, base .. 'missing:' .. token)
    redis.call('ZREM', base .. 'stages', token)
  end
end

local known = recall(repeat_name)
if known then
  if known.token ~= token then
    drop_staged()
  end
  if known.fingerprint ~= fingerprint then
    return refuse({ 'idempotency_key_reused' })
  end
  local made = read_record(known.id) and view(known.id)
  if not made then
    return refuse(inconsistent(known.id) or { 'idempotency_target_deleted', known.id })
  end
  refresh(repeat_name, repeat_ttl)
  return answer('ok', { made, known.token == token and '0' or '1' })
end

local job = read_job()
if (not job.known or job.gone) and not registered then
  return answer('register', {})
end

local own = settings(14)
if named == 0 and own.named > 0 and tonumber(ARGV[8]) ~= 0 and tonumber(ARGV[8]) ~= own.named then
  return refuse({ 'tasks_named', integer(own.named) })
end
local rested = ARGV[10] ~= '1' and own.pause > 0 and pause_ends(own.pause) or 0
local pending = pending_now()
local room = 0
if pending >= own.cap then
  local first = redis.call('ZRANGEBYSCORE', base .. 'deadlines', integer(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  room = first[2] and tonumber(first[2]) - now or 0
end
if rested > now or pending >= own.cap then
  ends.expire_overdue(100)
  drop_staged()
end
if rested > now then
  return refuse({ 'min_pause', integer(rested - now), integer(room) })
end
if pending >= own.cap then
  return refuse({ 'too_many_pending', integer(pending), integer(own.cap), integer(room) })
end

local place, other = find_place(job, floor)
if not place then
  return other
end
if staged and not (list_is_whole(token, named) and redis.call('ZCARD', base .. 'missing:' .. token) == named) then
  return answer('restage', {})
end
local what = {
  token = token, required = tonumber(ARGV[8]), timeout = ARGV[9] ~= '' and tonumber(ARGV[9]) or own.timeout,
  tasks = staged and 'staged' or 23, labels = ARGV[11], desc = ARGV[12], pinned = ARGV[13] == '1',
}
if named == 0 then
  what.tasks = ''
  if what.required == 0 then
    what.required = own.required
  end
  if own.named > 0 then
    if not list_is_whole(own.names, own.named) then
      return answer('unlisted', {})
    end
    what.tasks = 'job'
  end
else
  what.required = named
end

local made = create(job, place, own, what)
remember(repeat_name, repeat_ttl, integer(place.id), integer(job.epoch), token, {}, fingerprint)
return answer('ok', { made, '0' })
