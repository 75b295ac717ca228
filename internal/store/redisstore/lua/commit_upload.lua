-- Makes an upload the part of its task by writing one field of …:parts, and acknowledges
-- in the same step if asked to. What the task had uploaded before becomes garbage.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   checkpoint id
-- ARGV[3]   task id
-- ARGV[4]   epoch, "" is not checked
-- ARGV[5]   attempt
-- ARGV[6]   upload id
-- ARGV[7]   how many tasks a checkpoint may have
-- ARGV[8]   chunks of the part
-- ARGV[9]   restore bytes of the part
-- ARGV[10]  entries of the part
-- ARGV[11]  digest of the part
-- ARGV[12]  "1" acknowledges
-- ARGV[13]  retention's limits of the server, "keep|age|bytes" (prelude_end.lua)
-- ARGV[14]  token of the import that makes the checkpoint, "" for a task (prelude_import.lua)
--
-- Body     nothing; with ARGV[12] the outcomes of prelude_judge.lua, of one item
-- Refusals those of begin_upload; upload_lost; upload_incomplete: chunks, bytes that the
--          store has and the caller does not mean; with ARGV[12] inconsistent, see acknowledge.lua
--
-- Second run: …:parts names the upload already, so it answers as the first run did, also
-- when the checkpoint ended in between. Where it completed and went in the same step, the
-- kept answer.

local id, task, epoch, attempt, upload = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local most, chunks, bytes, entries, digest = tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local with_ack, limits = ARGV[12] == '1', ARGV[13]

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = subject(id, ARGV[14])
if not rec then
  return kept_answer(upload) or refuse(absent(job, id, true))
end

-- text is the part's entry in …:parts.
local function acknowledge(text)
  local call = {
    token = upload, n = 1, first = 3, attempt = attempt, number = tonumber(attempt), epoch = epoch, digest = '',
    details = {}, uploaded = { text },
  }
  local plan = judge_items(id, rec, job.epoch, call)
  local contradiction = contradicts(id, rec, plan)
  if contradiction then
    return refuse(contradiction)
  end
  local reply = answer('ok', acknowledge_items(id, rec, call, plan, limits))
  if removed[id] then
    keep_answer(upload, reply)
  end
  return reply
end

settle(id, rec)
local parts = checkpoint_key(id, 'parts')
local before = redis.call('HGET', parts, task)
if before and names_upload(before, upload) then
  if with_ack then
    return acknowledge(before)
  end
  return answer('ok', {})
end

local refusal = upload_refusal(job, id, rec, task, epoch, attempt, most)
if refusal then
  return refuse(refusal)
end
if not running(id, upload) then
  return refuse({ 'upload_lost' })
end
local tally = checkpoint_key(id, 'upload:' .. upload)
local has = redis.call('HMGET', tally, 'n', 'top', 'bytes')
if (has[1] or '0') ~= chunks or (has[2] or '0') ~= chunks or (has[3] or '0') ~= bytes then
  return refuse({ 'upload_incomplete', has[1] or '0', has[3] or '0' })
end

local contradiction = with_ack and rec.acked + 1 >= rec.required and uneven(id, rec)
if contradiction then
  return refuse(contradiction)
end

local text = table.concat({ upload, chunks, bytes, entries, digest }, '|')
redis.call('HSET', parts, task, text)
if before then
  abandon_part(id, before)
end
redis.call('ZREM', base .. 'uploads', id .. ':' .. upload)
redis.call('UNLINK', tally)
record_attempt(task, attempt)
if with_ack then
  return acknowledge(text)
end
redis.call('SADD', checkpoint_key(id, 'staged'), task)
return answer('ok', {})
