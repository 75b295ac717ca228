-- First prelude of every script: where keys are, what time it is, how a job and a record are
-- read. It reads only. What an acknowledgement that ends nothing does without is in prelude.lua and
-- the others: making a function takes Redis a tenth of a microsecond, and a hundred of them would
-- take longer than the acknowledgement.
--
-- Every script gets
--   KEYS[1]  the job's hash (…job). It routes the script to the job's slot; all other
--            keys of the job are derived from it and share its hash tag.
--   ARGV[1]  the clock as Unix ms, "" for the server's own (tests pass one).
--
-- Values (locals): base, default_job, now, EMPTY_DIGEST.
-- Functions:
--   integer(n)                   number -> decimal string, never in scientific notation
--   checkpoint_key(id, part)     key of a checkpoint's auxiliary value ("acks", "parts", …)
--   read_job()                   { next, epoch, gone, known, lost }: gone after its deletion, which leaves
--                                its counters; known where there is something of it; lost where its hash
--                                lacked a counter, which was then taken from what else is there
--   find_job()                   the same, or nil where the job does not exist
--   read_record(id, key, mark)   the fields that decide, or nil where there is no record
--                                of ours that is whole; absent in prelude.lua says what that means: { key, status, epoch, rev, start, timeout, required, acked,
--                                tasks, pinned, entries, bytes, token, ended, version, damage, aside }; key is the
--                                hash itself: …:adopted where another program has the name. key and
--                                mark are for prelude_import.lua
--   overdue(rec)                 whether a pending record's deadline has passed
--   abandon_part(id, text)       hands the chunks of a part that nobody will read to the sweeper;
--                                text is its entry in …:parts

local base = string.sub(KEYS[1], 1, -4)
-- Other jobs carry a hash tag, on a cluster the default one too, and no key prefix may contain a brace.
local default_job = string.sub(base, -2) ~= '}:' or string.sub(base, -10) == '{default}:'
local EMPTY_DIGEST = 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

local now
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
else
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- tostring would write 2^53 as 9.007199254741e+15. Formatting takes as long as a small command,
-- that of a double three times as long as that of an int, which holds 31 bits everywhere; and a
-- script writes the same few numbers, now above all, again and again.
local texts = {}
local function integer(n)
  local text = texts[n]
  if not text then
    text = string.format(n < 2147483648 and '%d' or '%.0f', n)
    texts[n] = text
  end
  return text
end

local function checkpoint_key(id, part)
  return base .. id .. ':' .. part
end

-- A job's hash that lacks a counter was lost, or cut by a hand, where the job has checkpoints or a log. Its
-- counters are above all that these name. What was given and has left no trace is passed over by a wide margin, by
-- those who give ids and epochs (prelude_floor.lua).
local function rebuild(job)
  local top, epoch = -1, 0
  for _, list in ipairs({ 'index', 'completed', 'pending', 'ended', 'importing' }) do
    -- The scores of …importing are no ids.
    local ids = redis.pcall('ZREVRANGE', base .. list, 0, list == 'importing' and -1 or 0)
    for i = 1, #ids do
      top = math.max(top, tonumber(ids[i]) or -1)
    end
  end
  job.known = job.known or top >= 0
  if top >= 0 then
    local given = redis.pcall('HGET', base .. integer(top), 'epoch')
    epoch = type(given) == 'string' and tonumber(given) or 0
    top = math.max(top, tonumber(redis.call('HGET', base .. 'job', 'okid') or '') or -1)
  end
  local before = '+'
  repeat
    local entries = redis.pcall('XREVRANGE', base .. 'events', before, '-', 'COUNT', 1000)
    -- A stream of somebody else is no log.
    if #entries > 0 and entries[1][2][1] ~= 'type' then
      break
    end
    for i = 1, #entries do
      epoch = math.max(epoch, tonumber(string.match(entries[i][1], '^%d+')))
      local fields = entries[i][2]
      for at = 1, #fields, 2 do
        if fields[at] == 'id' then
          top = math.max(top, tonumber(fields[at + 1]) or -1)
        end
      end
      before = '(' .. entries[i][1]
    end
  until #entries < 1000
  if before ~= '+' or top >= 0 then
    job.next, job.epoch, job.lost = math.max(job.next, top + 1), math.max(job.epoch, epoch), true
  end
end

local function read_job()
  local field = redis.call('HMGET', base .. 'job', 'next', 'epoch', 'gone')
  local next, epoch = tonumber(field[1] or ''), tonumber(field[2] or '')
  local job = {
    next = next or 0, epoch = epoch or 0, gone = field[3] == '1',
    known = default_job or (field[1] or field[2]) and true,
  }
  if not (next and epoch) then
    rebuild(job)
  end
  return job
end

local function find_job()
  local job = read_job()
  if job.known and not job.gone then
    return job
  end
  return nil
end

-- What parseCheckpoint (record.go) demands of an ended record beyond the fields that decide: what a
-- script names as the latest must not fail in the server's hands afterwards.
local function ended_whole(field, last)
  if field[2] ~= 'completed' and field[2] ~= 'expired' and field[2] ~= 'aborted' then
    return false
  end
  for _, i in ipairs({ 3, 4, 5, 6, 7, 8, 9, 10, 13 }) do
    if not string.find(field[i] or '', '^%-?%d+$') then
      return false
    end
  end
  if not string.find(last[2] or '', '^%d+$') or not string.find(last[4] or '', '^%d+$') then
    return false
  end
  for i = 6, 8 do
    if not string.find(last[i] or '0', '^%d*$') then
      return false
    end
  end
  if (last[5] or '') == '' then
    return true
  end
  local fine, labels = pcall(cjson.decode, last[5])
  return fine and type(labels) == 'table'
end

-- A key under the prefix need not be ours: a value of another type, or a hash without
-- our mark or with undecodable numbers, counts as no record and is never touched. Of a key that was
-- adopted the record lies beside it. Redis walks over a record for each field that is read, so what
-- only an ended one has is read of those.
local function read_record(id, beside, mark)
  local key = beside or base .. id
  local field = redis.pcall('HMGET', key, 'v', 'status', 'rev', 'start', 'timeout',
    'required', 'acked', 'entries', 'bytes', 'epoch', 'tasks', 'pinned', 'version')
  if field.err or field[1] ~= (mark or '1') then
    return not beside and read_record(id, checkpoint_key(id, 'adopted')) or nil
  end
  local rec = {
    key = key, status = field[2], rev = tonumber(field[3]), start = tonumber(field[4]),
    timeout = tonumber(field[5]), required = tonumber(field[6]), acked = tonumber(field[7]),
    entries = tonumber(field[8]), bytes = tonumber(field[9]), epoch = tonumber(field[10]),
    tasks = field[11] or '', pinned = field[12] == '1', version = tonumber(field[13]), token = '', ended = 0, damage = '', aside = false,
  }
  if rec.status and rec.status ~= 'pending' then
    local last = redis.call('HMGET', key, 'token', 'ended', 'damage', 'ts', 'labels', 'sentries', 'sbytes', 'srev', 'aside')
    rec.token, rec.ended, rec.damage = last[1] or '', tonumber(last[2] or ''), last[3] or ''
    rec.aside = last[9] == '1'
    if not ended_whole(field, last) then
      return nil
    end
  end
  if rec.status and rec.rev and rec.start and rec.timeout and rec.required and rec.acked
    and rec.entries and rec.bytes and rec.epoch and rec.ended and rec.version then
    return rec
  end
  return nil
end

local function overdue(rec)
  return rec.status == 'pending' and rec.timeout > 0 and now - rec.start > rec.timeout
end

local function abandon_part(id, text)
  local upload, chunks = string.match(text, '^([^|]*)|(%d+)|')
  if upload and chunks ~= '0' then
    redis.call('ZADD', base .. 'garbage', integer(now), 'upload:' .. id .. ':' .. upload .. ':' .. chunks)
  end
end
