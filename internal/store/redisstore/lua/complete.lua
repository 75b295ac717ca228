-- Completes a pending checkpoint by hand and applies retention.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  "1" also completes with acknowledgements missing
-- ARGV[4]  retention's limits of the server, "keep|age|bytes" (prelude_end.lua)
-- ARGV[5]  token of the call
-- ARGV[6]  the name of who asks, for the events; may be left out
--
-- Body     view
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted
--          acks_missing: their number, then the first 20 names where tasks were named
--          checkpoint_expired, checkpoint_aborted: with next steps
--          inconsistent: id, what makes no sense
-- Second run: a completed checkpoint stays as it is; where it went in the same step, the kept
--          answer.

local id, force, limits, token = ARGV[2], ARGV[3] == '1', ARGV[4], ARGV[5]
caller = ARGV[6] or ''

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id)
if not rec then
  return kept_answer(token) or refuse(absent(job, id))
end
settle(id, rec)
if rec.status == 'completed' then
  if rec.token == token then
    report_end(before, id, rec, '')
  end
  return answer('ok', { view(id) })
end
if rec.status ~= 'pending' then
  return refuse(ended_refusal(rec))
end
if rec.acked < rec.required and not force then
  local names = {}
  if rec.tasks ~= '' then
    names = redis.call('ZRANGE', base .. 'missing:' .. rec.tasks, 0, 19)
  end
  return refuse({ 'acks_missing', integer(rec.required - rec.acked), unpack(names) })
end

local contradiction = uneven(id, rec)
if contradiction then
  return refuse(contradiction)
end
ends.complete_pending(id, rec, token, '')
-- Retention may take this very one, where newer ones completed before it.
local completed = view(id)
ends.apply_retention(limits, 100)
local reply = answer('ok', { completed })
if removed[id] then
  keep_answer(token, reply)
end
return reply
