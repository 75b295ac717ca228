-- Removes some of a job's checkpoints, oldest first, and when none is left what else the job is
-- made of. It is gone then, the default one apart. What keeps ids, epochs, events, revisions and
-- attempts from being given twice stays.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  token of the call
-- ARGV[3]  "1" also removes pending and pinned checkpoints
-- ARGV[4]  how many may go in this step
-- ARGV[5]  "1" demands that nobody configured the job
-- ARGV[6]  number of tags one of which the settings must have; then the tags, then the name of who
--          asks, for the events; the latter may be left out
--
-- Body     "1" if checkpoints are left, array of ids that went
-- Refusals job_not_found; precondition_failed
--          pinned: how many are; checkpoint_not_completed: how many are pending
-- Second run: finds the kept answer.

local token, force, most, tags = ARGV[2], ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[6])
caller = ARGV[7 + tags] or ''

local known = kept_answer(token)
if known then
  return known
end
local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local had = redis.call('HMGET', base .. 'job', 'configured', 'srev', 's_names')
if not met(had[1] == '1' and integer(tonumber(had[2])), ARGV[5] == '1', 7, tags) then
  return refuse({ 'precondition_failed' })
end
local pinned = redis.call('SCARD', base .. 'pinned')
if pinned > 0 and not force then
  return refuse({ 'pinned', integer(pinned) })
end
ends.expire_overdue(1000)
local pending = pending_now()
if pending > 0 and not force then
  return refuse({ 'checkpoint_not_completed', integer(pending) })
end

allow_full()
-- The expiry may be more than is kept of those that ended: that is told as always.
ends.trim_ended()
for _, id in ipairs(redis.call('ZRANGE', base .. 'importing', 0, most - 1)) do
  drop_import(id)
end
local gone = {}
-- Other indexes have more than …index only where that has lost some. Then what these have goes too, or its
-- parts would stay for ever.
for _, list in ipairs({ 'index', 'completed', 'pending', 'ended', 'remains' }) do
  for _, id in ipairs(redis.call('ZRANGE', base .. list, 0, most - 1 - #gone)) do
    local rec = read_record(id) or ends.remnant(id)
    if rec then
      ends.evict(id, rec, 'aborted', 'request')
      gone[#gone + 1] = id
    else
      ends.forget(id)
    end
  end
  if #gone == most then
    break
  end
end
local left = redis.call('ZCARD', base .. 'importing')
for _, list in ipairs({ 'index', 'completed', 'pending', 'ended', 'remains' }) do
  left = left + redis.call('ZCARD', base .. list)
end
left = left > 0
if not left then
  events.emit('job.deleted', '', events.add_caller({}))
  -- What this step has to tell and to count comes before what forgets all counts.
  events.close()
  redis.call('UNLINK', base .. 'stats', base .. 'samples', base .. 'restores', base .. 'tasks:' .. (had[3] or ''), base .. 'pending',
    base .. 'deadlines', base .. 'completed', base .. 'retained', base .. 'ended', base .. 'remains', base .. 'pinned')
  redis.call('HDEL', base .. 'job', 'configured', 's_required', 's_timeout', 's_interval', 's_minpause', 's_pending', 's_tolerate',
    's_stale', 's_keep', 's_age', 's_bytes', 's_paused', 's_desc', 's_named', 's_names', 'due', 'sch_last', 'sch_at', 'sch_id',
    'sch_triggered', 'sch_skipped', 'sch_missed', 'fails', 'failing', 'f_id', 'f_at', 'f_reason', 'f_task', 'f_msg', 'okat', 'rbytes')
  redis.call('HSET', base .. 'job', 'next', integer(job.next), 'epoch', integer(job.epoch),
    'srev', integer(tonumber(had[2] or '0') + 1), 'gone', default_job and '0' or '1')
end
local reply = answer('ok', { left and '1' or '0', gone })
keep_answer(token, reply)
return reply
