-- Looks through checkpoints, newest first by id, for those that pass the filters.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  wanted status, "" for all; it is compared with the derived status
-- ARGV[3]  cursor: look at ids below it, "" from the newest
-- ARGV[4]  how many to answer at most
-- ARGV[5]  leave out what this task has acknowledged or may not, "" for nobody
-- ARGV[6]  how many records to look at, which bounds the run
-- ARGV[7]  after how many bytes of answer to stop, "" for no matter how many
--
-- Body     cursor to go on from ("" at the end), { view, … }, ids of those without a whole record. There
--          may be more whenever the cursor is not "", also when nothing was found.
-- Refusals job_not_found
--
-- Second run: reads only.

local want, below, most, task, looks = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local room = tonumber(ARGV[7] or '') or math.huge
if not find_job() then
  return refuse({ 'job_not_found' })
end

-- What is overdue stands in pending until somebody writes its expiry.
local sources = ({
  [''] = { 'index' },
  pending = { 'pending' },
  completed = { 'completed' },
  expired = { 'ended', 'pending' },
  aborted = { 'ended' },
})[want]

local filtered = want ~= '' or task ~= ''

-- Reads only what the filters ask for; nil is a record that cannot be read.
local function wanted(id)
  local field = redis.pcall('HMGET', base .. id, 'status', 'start', 'timeout', 'tasks')
  if field.err or not field[1] then
    field = redis.pcall('HMGET', checkpoint_key(id, 'adopted'), 'status', 'start', 'timeout', 'tasks')
  end
  local start, timeout = tonumber(field[2] or ''), tonumber(field[3] or '')
  if field.err or not (start and timeout) then
    return nil
  end
  local status = field[1]
  if overdue({ status = status, start = start, timeout = timeout }) then
    status = 'expired'
  end
  if want ~= '' and status ~= want then
    return false
  end
  if task == '' then
    return true
  end
  local tasks = field[4] or ''
  if tasks ~= '' and type(redis.pcall('ZSCORE', base .. 'tasks:' .. tasks, task)) ~= 'string' then
    return false
  end
  return redis.pcall('HEXISTS', checkpoint_key(id, 'acks'), task) == 0
end

-- The newest ids below the cursor. Each source gives its newest, so the newest of the
-- merged ones are complete.
local function page(size)
  local ids = {}
  local max = below == '' and '+inf' or '(' .. below
  for _, source in ipairs(sources) do
    for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', base .. source, max, '-inf', 'LIMIT', 0, size)) do
      ids[#ids + 1] = id
    end
  end
  table.sort(ids, function(a, b)
    return tonumber(a) > tonumber(b)
  end)
  return ids, math.min(#ids, size)
end

-- How many bytes the texts of a view have.
local function size_of(texts)
  local sum = 0
  for _, text in ipairs(texts) do
    sum = sum + (type(text) == 'table' and size_of(text) or #text)
  end
  return sum
end

-- In a large index each id is a walk through memory that nobody has touched for long: where all that
-- is looked at is wanted, no more of them than that.
local found, lost, size = {}, {}, filtered and 100 or math.min(most, 100)
while looks > 0 and #found < most and room > 0 do
  local ids, count = page(math.min(looks, size))
  size = 100
  if count == 0 then
    return answer('ok', { '', found, lost })
  end
  for i = 1, count do
    looks, below = looks - 1, ids[i]
    local fits = not filtered or wanted(ids[i])
    local seen = fits and view(ids[i])
    if fits == nil or fits and not seen then
      lost[#lost + 1] = ids[i]
    elseif seen then
      found[#found + 1] = seen
      room = room - size_of(seen)
      if #found == most or room <= 0 then
        break
      end
    end
  end
end
return answer('ok', { below, found, lost })
