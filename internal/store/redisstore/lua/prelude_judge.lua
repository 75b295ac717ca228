-- Prelude of the scripts that acknowledge, right after prelude_base.lua: whatever an
-- acknowledgement that ends nothing needs.
--
-- Functions:
--   parse_part(text)
--       an entry of …:parts as { upload, chunks, bytes, entries, digest }, all strings.
--   judge_items(id, rec, epoch, call)
--       judges the items of a call in order, each as if those before it were written. It
--       reads only. epoch is the job's. Gives a plan:
--         before, count, status   acknowledgements before the call and after it, status after it
--         last                    the task that completes the checkpoint, or nil
--         latency                 ms since the start, of all that are accepted now
--         accepted                how many those are
--         recalled                whether the call has run before: some items carry its token
--         completed               whether it was that run which completed the checkpoint
--         late                    places in details of items that came too late, whose next
--                                 steps the caller knows when it has written, or nil
--         flags                   a letter an item, in order: "a" accepted, "d" duplicate, "r" refused, "k"
--                                 known, which is an item accepted by an earlier run of the call
--         unexpected              whether some task is not among the named ones, or nil
--         details                 for each refused item { code, argument, … }, for each known one
--                                 { its place, ms since the start }, in order
--       and what write_accepted wants.
--   write_accepted(id, rec, call, plan)
--       writes what was accepted, and updates rec. Its first write needs memory, so that a
--       full Redis refuses before anything changed.
--   outcomes(rec, plan)
--       the body of the answer: status, acks and required after the call, then before, latency,
--       flags and details of the plan. Count and status as of each item's own place follow from
--       them: an accepted item raises the count, and completes at required.
--
-- A call is { token, n, first, details, attempt, number, epoch, digest, uploaded }: the tasks of its
-- n items are ARGV[first …]. details[i] is item i where it differs from the call itself, which is
-- the common item: { attempt (string), number (the same), epoch (string, "" = unchecked), digest
-- ("" = none), part }, part = nil or { entries, bytes, digest (strings), chunks, first }: a part
-- handed in with the item lies in ARGV[first …] as its chunks. uploaded are the items' entries in
-- …:parts where the caller knows them; they need not be staged.

local EMPTY_PART = { entries = '0', bytes = '0', digest = '' }

local function parse_part(text)
  local upload, chunks, bytes, entries, digest = string.match(text, '^([^|]*)|(%d+)|(%d+)|(%d+)|(.*)$')
  return { upload = upload, chunks = chunks, bytes = bytes, entries = entries, digest = digest }
end

-- An acknowledgement is stored as attempt|at|place|entries|bytes|digest|token. An empty
-- part has no digest there: those of 100 000 tasks would take 7 MB.
local function judge_items(id, rec, epoch, call)
  local argv, format = ARGV, string.format
  local token, n, first, common_details = call.token, call.n, call.first, call.details
  local last = first + n - 1
  local acks = redis.call('HMGET', checkpoint_key(id, 'acks'), unpack(argv, first, last))
  local uploaded, heard, expected = call.uploaded, nil, nil
  -- Few jobs have heard of an attempt, and few checkpoints have parts that wait.
  if redis.call('EXISTS', base .. 'attempts', checkpoint_key(id, 'staged')) > 0 then
    heard = redis.call('HMGET', base .. 'attempts', unpack(argv, first, last))
    uploaded = uploaded or redis.call('HMGET', checkpoint_key(id, 'parts'), unpack(argv, first, last))
  end
  if rec.tasks ~= '' then
    expected = redis.call('ZMSCORE', base .. 'tasks:' .. rec.tasks, unpack(argv, first, last))
  end

  local count, status, required, accepted = rec.acked, rec.status, rec.required, 0
  local latency = math.max(0, now - rec.start)
  local stored, details, flags = {}, {}, nil
  local plan = { before = count, latency = latency, acks = stored, details = details }
  -- What the items before one have changed, by task: the digest acknowledged, the attempt heard of.
  local digests, attempts = {}, {}
  local at, tail = '|' .. integer(now) .. '|', '|0|0||' .. token
  local head = call.attempt .. at
  -- Whether a task that has no acknowledgement yet can be no other than accepted.
  local plain = status == 'pending' and call.number == 0 and (call.epoch == '' or tonumber(call.epoch) == epoch)
    and not heard and not expected and not uploaded
  for i = 1, n do
    local task = argv[first + i - 1]
    if plain and not acks[i] and not digests[task] and not common_details[i] and count + 1 < required then
      count, accepted = count + 1, accepted + 1
      digests[task] = EMPTY_DIGEST
      local even = accepted + accepted
      stored[even - 1], stored[even] = task, head .. format('%d', count) .. tail
      if flags then
        flags[i] = 'a'
      end
    else
      local item = common_details[i] or call
      local highest = attempts[task] or heard and heard[i] and tonumber(heard[i]) or 0
      local standing, flag, detail = digests[task], 'r', nil
      if acks[i] and not standing then
        local had, place, digest, of = string.match(acks[i], '^%d+|(%d+)|(%d+)|%d+|%d+|([^|]*)|(.*)$')
        standing = digest == '' and EMPTY_DIGEST or digest
        if of == token then
          plan.recalled, digests[task] = true, standing
          flag, detail = 'k', { tonumber(place), math.max(0, had - rec.start) }
          plan.completed = plan.completed or tonumber(place) >= required and rec.token == token
        end
      end
      if flag == 'k' then
        details[#details + 1] = detail
      elseif expected and not expected[i] then
        detail, plan.unexpected = { 'task_not_expected', task }, true
      elseif item.epoch ~= '' and tonumber(item.epoch) ~= epoch then
        detail = { 'stale_epoch', item.epoch, integer(epoch) }
      elseif item.number < highest then
        detail = { 'stale_attempt', task, item.attempt, integer(highest) }
      elseif status == 'expired' or status == 'aborted' then
        detail = 'late'
      elseif standing then
        local named = item.part and item.part.digest or item.digest
        if named ~= '' and named ~= standing then
          detail = { 'ack_conflict', task }
        else
          flag = 'd'
        end
      elseif status == 'completed' then
        detail = 'late'
      else
        local waiting = uploaded and uploaded[i]
        local counts = item.part or waiting and parse_part(waiting) or EMPTY_PART
        if item.digest ~= '' and item.digest ~= counts.digest then
          detail = { 'part_changed', task, counts.digest }
        else
          flag = 'a'
          count, accepted = count + 1, accepted + 1
          if count >= required then
            status, plan.last = 'completed', task
          end
          local place = format('%d', count)
          if counts.bytes == '0' then
            stored[2 * accepted] = item.attempt .. at .. place .. tail
          else
            stored[2 * accepted] = table.concat({ item.attempt .. at .. place, counts.entries, counts.bytes, counts.digest, token }, '|')
            plan.entries, plan.bytes = (plan.entries or 0) + counts.entries, (plan.bytes or 0) + counts.bytes
          end
          stored[2 * accepted - 1] = task
          digests[task] = counts.digest ~= '' and counts.digest or EMPTY_DIGEST
          if item.number > highest then
            attempts[task] = item.number
            plan.attempts = plan.attempts or {}
            plan.attempts[#plan.attempts + 1] = task
            plan.attempts[#plan.attempts + 1] = item.attempt
          end
          if waiting then
            plan.staged = plan.staged or {}
            plan.staged[#plan.staged + 1] = task
          end
          if item.part then
            plan.parts = plan.parts or {}
            plan.parts[#plan.parts + 1] = { task = task, part = item.part, waiting = waiting, upload = token .. '.' .. i }
          end
        end
      end
      if flag == 'r' then
        details[#details + 1] = detail
        if detail == 'late' then
          plan.late = plan.late or {}
          plan.late[#plan.late + 1] = #details
        end
      end
      if not flags then
        flags = {}
        for before = 1, i - 1 do
          flags[before] = 'a'
        end
      end
      flags[i] = flag
    end
  end
  plan.count, plan.status, plan.accepted = count, status, accepted
  plan.flags = flags and table.concat(flags) or string.rep('a', n)
  return plan
end

-- Gives tasks the parts that came with their items, in place of uploaded ones.
local function store_parts(id, parts)
  local entries = {}
  for _, one in ipairs(parts) do
    local part = one.part
    if one.waiting then
      abandon_part(id, one.waiting)
    end
    if part.chunks > 0 then
      for n = 0, part.chunks - 1 do
        redis.call('SET', checkpoint_key(id, 'part:' .. one.upload .. ':' .. n), ARGV[part.first + n])
      end
      entries[#entries + 1] = one.task
      entries[#entries + 1] = table.concat({ one.upload, part.chunks, part.bytes, part.entries, part.digest }, '|')
    elseif one.waiting then
      redis.call('HDEL', checkpoint_key(id, 'parts'), one.task)
    end
  end
  if #entries > 0 then
    redis.call('HSET', checkpoint_key(id, 'parts'), unpack(entries))
  end
end

local function accepted_tasks(call, plan)
  if plan.accepted == call.n then
    return unpack(ARGV, call.first, call.first + call.n - 1)
  end
  local tasks = {}
  for i = 1, plan.accepted do
    tasks[i] = plan.acks[2 * i - 1]
  end
  return unpack(tasks)
end

local function write_accepted(id, rec, call, plan)
  if plan.accepted == 0 then
    return
  end
  redis.call('HSET', checkpoint_key(id, 'acks'), unpack(plan.acks))
  if plan.parts then
    store_parts(id, plan.parts)
  end
  redis.call('RPUSH', checkpoint_key(id, 'unsorted'), accepted_tasks(call, plan))
  rec.acked, rec.rev = plan.count, rec.rev + plan.accepted
  if plan.bytes then
    rec.entries, rec.bytes = rec.entries + plan.entries, rec.bytes + plan.bytes
    redis.call('HSET', base .. id, 'acked', integer(rec.acked), 'rev', integer(rec.rev),
      'entries', integer(rec.entries), 'bytes', integer(rec.bytes))
  else
    redis.call('HSET', base .. id, 'acked', integer(rec.acked), 'rev', integer(rec.rev))
  end
  if plan.attempts then
    redis.call('HSET', base .. 'attempts', unpack(plan.attempts))
  end
  if plan.staged then
    redis.call('SREM', checkpoint_key(id, 'staged'), unpack(plan.staged))
  end
  if rec.tasks ~= '' then
    redis.call('ZREM', base .. 'missing:' .. rec.tasks, accepted_tasks(call, plan))
  end
end

local function outcomes(rec, plan)
  return { rec.status, rec.acked, rec.required, plan.before, plan.latency, plan.flags, plan.details }
end
