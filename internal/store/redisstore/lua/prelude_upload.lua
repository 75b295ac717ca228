-- Prelude of the scripts about uploads: after prelude.lua and prelude_end.lua.
--
-- A running upload is a member "<id>:<uploadId>" of the leased index …uploads. Its chunks
-- are …:part:<uploadId>:<n>, their tally is the hash …:upload:<uploadId> with
--   n      how many chunks are stored
--   top    the highest index of them plus one, so how many there are to unlink
--   bytes  the sum of their lengths
--
-- Functions:
--   upload_refusal(job, id, rec, task, epoch, attempt, most)
--                            what keeps a task from handing in a part now, or nil. The caller
--                            has settled rec; most is how many tasks a checkpoint may have
--   running(id, upload)      whether the upload is in the index
--   names_upload(text, upload)
--                            whether a task's part, as …:parts has it, is this upload
--   abandon_upload(id, upload)
--                            takes a running upload out of the index and hands its chunks to the
--                            sweeper. Needs no memory for its first write

local function upload_refusal(job, id, rec, task, epoch, attempt, most)
  local refusal = check_sender(job, id, rec, task, epoch, attempt)
  if refusal then
    return refusal
  end
  if rec.status == 'expired' or rec.status == 'aborted' then
    return ended_refusal(rec)
  end
  if redis.call('HEXISTS', checkpoint_key(id, 'acks'), task) == 1 then
    return { 'ack_conflict', task }
  end
  if rec.status == 'completed' then
    return ended_refusal(rec)
  end
  local tasks = rec.acked + redis.call('SCARD', checkpoint_key(id, 'staged'))
  if tasks >= most and redis.call('HEXISTS', checkpoint_key(id, 'parts'), task) == 0 then
    return { 'limit_exceeded', integer(most) }
  end
  return nil
end

local function running(id, upload)
  return redis.call('ZSCORE', base .. 'uploads', id .. ':' .. upload)
end

local function names_upload(text, upload)
  return string.sub(text, 1, #upload + 1) == upload .. '|'
end

local function abandon_upload(id, upload)
  local tally = checkpoint_key(id, 'upload:' .. upload)
  local chunks = redis.call('HGET', tally, 'top')
  redis.call('ZREM', base .. 'uploads', id .. ':' .. upload)
  redis.call('UNLINK', tally)
  if chunks then
    redis.call('ZADD', base .. 'garbage', integer(now), 'upload:' .. id .. ':' .. upload .. ':' .. chunks)
  end
end
