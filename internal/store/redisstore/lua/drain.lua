-- Unlinks a bounded number of chunks that neither a record nor a lease names.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  how many chunks to unlink at most
--
-- Body     how much garbage is left, in members of the index
-- Refusals none
--
-- Second run: goes on where the first one stopped. Members of the index are
--   upload:<id>:<uploadId>:<chunks>  one part; shrinks from its end
--   parts:<id>                       all parts of a checkpoint that ended uncompleted or is gone
--   staged:<id>                      parts of a completed one that nobody acknowledged

local budget = tonumber(ARGV[2])
local garbage = base .. 'garbage'

-- Unlinks up to budget chunks of a part from its end, and gives how many are left.
local function unlink_chunks(id, upload, chunks)
  local left = math.max(0, chunks - budget)
  local keys = {}
  for n = left, chunks - 1 do
    keys[#keys + 1] = checkpoint_key(id, 'part:' .. upload .. ':' .. integer(n))
  end
  if #keys > 0 then
    redis.call('UNLINK', unpack(keys))
    budget = budget - #keys
  end
  return left
end

-- A part that is larger than the budget stays garbage under its own name. A part costs
-- one more than its chunks, or 100 000 empty ones would be one long run.
local function drop_part(id, text)
  local upload, chunks = string.match(text, '^([^|]*)|(%d+)|')
  if upload then
    local left = unlink_chunks(id, upload, tonumber(chunks))
    if left > 0 then
      redis.call('ZADD', garbage, integer(now), 'upload:' .. id .. ':' .. upload .. ':' .. integer(left))
    end
  end
  budget = budget - 1
end

local function drain_upload(member)
  local id, upload, chunks = string.match(member, '^upload:(%d+):(.*):(%d+)$')
  local added = redis.call('ZSCORE', garbage, member)
  redis.call('ZREM', garbage, member)
  if id then
    local left = unlink_chunks(id, upload, tonumber(chunks))
    if left > 0 then
      redis.call('ZADD', garbage, added, 'upload:' .. id .. ':' .. upload .. ':' .. integer(left))
    end
  end
  budget = budget - 1
end

-- A value of another type under one of our names is not ours: the index forgets it.
local function drain_parts(member, id)
  local parts = checkpoint_key(id, 'parts')
  local rows = redis.pcall('HRANDFIELD', parts, budget, 'WITHVALUES')
  for i = 1, #rows, 2 do
    if budget <= 0 then
      return
    end
    redis.call('HDEL', parts, rows[i])
    drop_part(id, rows[i + 1])
  end
  if rows.err or redis.call('EXISTS', parts) == 0 then
    redis.call('ZREM', garbage, member)
  end
end

local function drain_staged(member, id)
  local staged, parts = checkpoint_key(id, 'staged'), checkpoint_key(id, 'parts')
  local tasks = redis.pcall('SRANDMEMBER', staged, budget)
  for _, task in ipairs(tasks) do
    if budget <= 0 then
      return
    end
    local text = redis.call('HGET', parts, task)
    redis.call('SREM', staged, task)
    redis.call('HDEL', parts, task)
    drop_part(id, text or '')
  end
  if tasks.err or redis.call('EXISTS', staged) == 0 then
    redis.call('ZREM', garbage, member)
  end
end

while budget > 0 do
  local member = redis.call('ZRANGE', garbage, 0, 0)[1]
  if not member then
    break
  end
  local kind, id = string.match(member, '^(%a+):(%d+)')
  if kind == 'parts' then
    drain_parts(member, id)
  elseif kind == 'staged' then
    drain_staged(member, id)
  else
    drain_upload(member)
  end
end
return answer('ok', { integer(redis.call('ZCARD', garbage)) })
