-- Restarts the fleet: ends everything pending, raises the epoch, and leases the latest
-- completed checkpoint; or answers what the same Idempotency-Key, or call, did before.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  name of the record of repeats, "<verb>:<hash>"
-- ARGV[3]  its time to live (ms)
-- ARGV[4]  token of the call
-- ARGV[5]  fingerprint of the request
-- ARGV[6]  lease (ms from now), "0" = none
-- ARGV[7]  "1" when the caller has put the job into the list of jobs
-- ARGV[8]  the name of who asks, for the events; may be left out
-- ARGV[9]  what the caller has seen of the job, see floor_of; may be left out
-- ARGV[10] id of the completed checkpoint to go back to, "" = the latest; may be left out
-- ARGV[11] highest snapshot version that the caller reads; with an id only
--
-- Body     epoch, "1" if repeated by another call, array of the view or empty, ids that this
--          call ended …
-- Other words
--          register: the job is new, or was deleted; put it into the list of jobs, then call again
-- Refusals idempotency_key_reused
--          idempotency_target_deleted: id
--          damaged: id, what it lacks; unsupported_version: id, version; where no completed checkpoint can
--          be restored, or the one that the key stands for is damaged
--          inconsistent: id, what makes no sense; where the newest completed one, or the one that the key
--          stands for, has no whole record
--          all_set_aside: id; where none is the latest for that reason
--          with an id also job_not_found, checkpoint_not_found, checkpoint_deleted,
--          checkpoint_not_completed: id, status
-- Second run: finds the record of repeats, and in it its own token.

local repeat_name, repeat_ttl, token, fingerprint = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lease, registered = tonumber(ARGV[6]), ARGV[7] == '1'
caller = ARGV[8] or ''

-- One lease for each recovery: every worker that asks again is about to restore.
local function hold(id, epoch)
  if lease > 0 then
    local leases = checkpoint_key(id, 'leases')
    redis.call('ZREMRANGEBYSCORE', leases, '-inf', '(' .. integer(now))
    redis.call('ZADD', leases, integer(now + lease), 'recover:' .. epoch)
  end
end

local known = recall(repeat_name)
if known then
  if known.fingerprint ~= fingerprint then
    return refuse({ 'idempotency_key_reused' })
  end
  local found = {}
  if known.id ~= '-' then
    local rec = read_record(known.id)
    if not rec then
      return refuse(inconsistent(known.id) or { 'idempotency_target_deleted', known.id })
    end
    if rec.damage ~= '' then
      return refuse({ 'damaged', known.id, rec.damage })
    end
    found[1] = view(known.id)
  end
  refresh(repeat_name, repeat_ttl)
  if known.id ~= '-' then
    hold(known.id, known.epoch)
  end
  if known.token == token then
    for _, id in ipairs(known.ended) do
      local rec = read_record(id)
      if rec then
        report_end(before, id, rec, redis.call('HGET', base .. id, 'reason') or '')
      end
    end
    return answer('ok', { known.epoch, '0', found, unpack(known.ended) })
  end
  return answer('ok', { known.epoch, '1', found })
end

local wanted = ARGV[10] or ''
if wanted ~= '' and not find_job() then
  return refuse({ 'job_not_found' })
end
local job = read_job()
if (not job.known or job.gone) and not registered then
  return answer('register', {})
end

-- The checkpoint to go back to; or nil, and the refusal if there is one.
local function origin()
  if wanted == '' then
    local latest, spoiled = latest_completed()
    return latest, not latest and (spoiled or lost_completed()) or nil
  end
  local rec = read_record(wanted)
  if not rec then
    return nil, absent(job, wanted)
  end
  if rec.status ~= 'completed' then
    return nil, { 'checkpoint_not_completed', wanted, overdue(rec) and 'expired' or rec.status }
  end
  if rec.damage ~= '' then
    return nil, { 'damaged', wanted, rec.damage }
  end
  if rec.version > tonumber(ARGV[11]) then
    return nil, { 'unsupported_version', wanted, integer(rec.version) }
  end
  return wanted, nil
end
local latest, spoiled = origin()
if spoiled then
  return refuse(spoiled)
end

allow_full()
local stopped = {}
for _, id in ipairs(redis.call('ZRANGE', base .. 'pending', 0, -1)) do
  local rec = read_record(id)
  if rec and rec.status == 'pending' then
    if overdue(rec) then
      ends.expire(id, rec)
    else
      ends.end_uncompleted(id, rec, { status = 'aborted', reason = 'superseded' })
    end
    stopped[#stopped + 1] = id
  elseif not rec then
    ends.pass_over(id)
  else
    redis.call('ZREM', base .. 'pending', id)
    redis.call('ZREM', base .. 'deadlines', id)
  end
end

local raised = next_epoch(job, floor_of(ARGV[9]))
local epoch = integer(raised)
redis.call('HSET', base .. 'job', 'epoch', epoch, 'next', integer(job.next), 'eprun', events.running())
if job.gone then
  redis.call('HDEL', base .. 'job', 'gone')
end
local found = {}
if latest then
  found[1] = view(latest)
  hold(latest, epoch)
end
events.open().epoch = raised
events.emit('job.recovered_epoch', latest or '', events.add_caller({}))
remember(repeat_name, repeat_ttl, latest or '-', epoch, token, stopped, fingerprint)
return answer('ok', { epoch, '0', found, unpack(stopped) })
