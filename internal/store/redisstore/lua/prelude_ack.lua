-- Prelude of the scripts that acknowledge: after prelude.lua and prelude_end.lua.
--
-- Functions:
--   acknowledge_items(job, id, rec, items, token, limits)
--       applies the items in order as one step: judges all of them, then writes what was
--       accepted, then completes the checkpoint and applies retention if one item reached the
--       required number. The caller has settled rec. Answers one array an item:
--         { "acknowledged", count, status, latency ms }
--         { "duplicate", count, status }
--         { "refused", count, status, code, argument, … }
--       with count and status as of the item's own place.
--   ack_one(job, id, rec, item, token, limits)
--       the same for a single item.
--   parse_part(text)
--       an entry of …:parts as { upload, chunks, bytes, entries, digest }, all strings.
--
-- An item is { task, attempt (string), epoch (string, "" = unchecked), digest ("" = none),
-- part = nil or { entries, bytes, digest, chunks, first } }, strings but for chunks and first: a
-- part handed in with the item lies in ARGV[first …] as its chunks.
--
-- Second run: an item whose stored acknowledgement carries the call's token was accepted
-- by the first run, and answers its place in the order again.

local EMPTY_PART = { entries = '0', bytes = '0', digest = '' }

-- An acknowledgement is stored as attempt|at|place|entries|bytes|digest|token. An empty
-- part has no digest there: those of 100 000 tasks would take 7 MB.
local function parse_ack(text)
  local at, place, digest, token = string.match(text, '^%d+|(%d+)|(%d+)|%d+|%d+|([^|]*)|(.*)$')
  if digest == '' then
    digest = EMPTY_DIGEST
  end
  return { at = tonumber(at), place = tonumber(place), digest = digest, token = token }
end

local function parse_part(text)
  local upload, chunks, bytes, entries, digest = string.match(text, '^([^|]*)|(%d+)|(%d+)|(%d+)|(.*)$')
  return { upload = upload, chunks = chunks, bytes = bytes, entries = entries, digest = digest }
end

local function refused(state, ...)
  return { 'refused', integer(state.count), state.status, ... }
end

-- Judges one item in the order of refusals. state has what the items before it changed:
-- count, status, last (the task that completed it), and by task the digest acknowledged and the
-- attempt heard of; and latency, which is the same for all items that are accepted now.
local function judge(id, rec, epoch, item, state, token)
  local task = item.task
  local ack = item.ack and parse_ack(item.ack)
  if ack and ack.token == token and not state.digests[task] then
    state.digests[task] = ack.digest
    local status = 'pending'
    if ack.place >= rec.required then
      status = 'completed'
      if rec.token == token then
        report_end(before, id, rec, '')
      end
    end
    return { 'acknowledged', integer(ack.place), status, integer(math.max(0, ack.at - rec.start)) }
  end
  if not item.expected then
    return refused(state, 'task_not_expected', task)
  end
  if item.epoch ~= '' and tonumber(item.epoch) ~= epoch then
    return refused(state, 'stale_epoch', item.epoch, integer(epoch))
  end
  local highest = state.attempts[task] or tonumber(item.highest)
  if tonumber(item.attempt) < highest then
    return refused(state, 'stale_attempt', task, item.attempt, integer(highest))
  end
  if state.status == 'expired' or state.status == 'aborted' then
    return { 'late' }
  end
  local standing = state.digests[task] or ack and ack.digest
  if standing then
    local named = item.part and item.part.digest or item.digest
    if named ~= '' and named ~= standing then
      return refused(state, 'ack_conflict', task)
    end
    return { 'duplicate', integer(state.count), state.status }
  end
  if state.status == 'completed' then
    return { 'late' }
  end
  local counts = item.part or item.uploaded and parse_part(item.uploaded) or EMPTY_PART
  if item.digest ~= '' and item.digest ~= counts.digest then
    return refused(state, 'part_changed', task, counts.digest)
  end
  state.count = state.count + 1
  if state.count >= rec.required then
    state.status, state.last = 'completed', task
  end
  local place = integer(state.count)
  item.place, item.counts = place, counts
  state.digests[task] = counts.digest ~= '' and counts.digest or EMPTY_DIGEST
  state.attempts[task] = tonumber(item.attempt)
  return { 'acknowledged', place, state.status, state.latency }
end

-- Gives the item's task the part that came with it, in place of an uploaded one.
local function store_part(id, item, upload)
  local part = item.part
  if item.uploaded then
    abandon_part(id, item.uploaded)
  end
  if part.chunks == 0 then
    if item.uploaded then
      redis.call('HDEL', checkpoint_key(id, 'parts'), item.task)
    end
    return
  end
  for n = 0, part.chunks - 1 do
    redis.call('SET', checkpoint_key(id, 'part:' .. upload .. ':' .. n), ARGV[part.first + n])
  end
  redis.call('HSET', checkpoint_key(id, 'parts'), item.task,
    upload .. '|' .. part.chunks .. '|' .. part.bytes .. '|' .. part.entries .. '|' .. part.digest)
end

local function write_accepted(id, rec, items, token)
  local acks, acked, names, attempts, staged = {}, {}, {}, {}, {}
  local entries, bytes = rec.entries, rec.bytes
  local at, n, parts = '|' .. integer(now) .. '|', 0, false
  for _, item in ipairs(items) do
    if item.place then
      local counts, task = item.counts, item.task
      n = n + 1
      local text = item.attempt .. at .. item.place
      if counts.bytes == '0' then
        text = text .. '|0|0||' .. token
      else
        entries, bytes = entries + counts.entries, bytes + counts.bytes
        text = text .. '|' .. counts.entries .. '|' .. counts.bytes .. '|' .. counts.digest .. '|' .. token
      end
      acks[2 * n - 1], acks[2 * n] = task, text
      acked[2 * n - 1], acked[2 * n] = '0', task
      names[n] = task
      if item.attempt ~= '0' and tonumber(item.attempt) > tonumber(item.highest) then
        attempts[#attempts + 1] = task
        attempts[#attempts + 1] = item.attempt
      end
      if item.uploaded then
        staged[#staged + 1] = task
      end
      parts = parts or item.part
    end
  end
  if n == 0 then
    return
  end
  -- The first write needs memory, so that a full Redis refuses before anything changed.
  redis.call('HSET', checkpoint_key(id, 'acks'), unpack(acks))
  if parts then
    for i, item in ipairs(items) do
      if item.place and item.part then
        store_part(id, item, token .. '.' .. i)
      end
    end
  end
  redis.call('ZADD', checkpoint_key(id, 'acked'), unpack(acked))
  rec.acked, rec.entries, rec.bytes, rec.rev = rec.acked + n, entries, bytes, rec.rev + n
  redis.call('HSET', base .. id, 'acked', integer(rec.acked), 'rev', integer(rec.rev), 'entries', integer(entries), 'bytes', integer(bytes))
  if #attempts > 0 then
    redis.call('HSET', base .. 'attempts', unpack(attempts))
  end
  if #staged > 0 then
    redis.call('SREM', checkpoint_key(id, 'staged'), unpack(staged))
  end
  if rec.tasks ~= '' then
    redis.call('ZREM', base .. 'missing:' .. rec.tasks, unpack(names))
  end
end

local function acknowledge_items(job, id, rec, items, token, limits)
  local tasks = {}
  for i, item in ipairs(items) do
    tasks[i] = item.task
  end
  local acks = redis.call('HMGET', checkpoint_key(id, 'acks'), unpack(tasks))
  local parts = redis.call('HMGET', checkpoint_key(id, 'parts'), unpack(tasks))
  local attempts = redis.call('HMGET', base .. 'attempts', unpack(tasks))
  local expected
  if rec.tasks ~= '' then
    expected = redis.call('ZMSCORE', base .. 'tasks:' .. rec.tasks, unpack(tasks))
  end

  local state = {
    count = rec.acked, status = rec.status, digests = {}, attempts = {},
    latency = integer(math.max(0, now - rec.start)),
  }
  local results, some_late = {}, false
  for i, item in ipairs(items) do
    item.ack, item.uploaded, item.highest = acks[i], parts[i], attempts[i] or '0'
    item.expected = not expected or expected[i]
    results[i] = judge(id, rec, job.epoch, item, state, token)
    some_late = some_late or results[i][1] == 'late'
  end

  write_accepted(id, rec, items, token)
  if rec.status == 'pending' and state.status == 'completed' then
    ends.complete_pending(id, rec, token, state.last)
    ends.apply_retention(limits, 100)
  end

  -- Only now: an item after the completing one is to hear of this very completion.
  if some_late then
    local refusal = ended_refusal(rec)
    for i, result in ipairs(results) do
      if result[1] == 'late' then
        results[i] = refused(state, unpack(refusal))
      end
    end
  end
  return results
end

local function ack_one(job, id, rec, item, token, limits)
  return acknowledge_items(job, id, rec, { item }, token, limits)[1]
end
