-- Looks through checkpoints, newest first by id, for those that pass the filters.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  wanted status, "" for all; it is compared with the derived status
-- ARGV[3]  cursor: look at ids below it, "" from the newest
-- ARGV[4]  how many to answer at most
-- ARGV[5]  leave out what this task has acknowledged or may not, "" for nobody
-- ARGV[6]  how many records to look at, which bounds the run
--
-- Body     cursor to go on from ("" at the end), { view, … }. There may be more
--          whenever the cursor is not "", also when nothing was found.
-- Refusals job_not_found
--
-- Second run: reads only.

local want, below, most, task, looks = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
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

local function wanted(id)
  local rec = read_record(id)
  if not rec then
    return false
  end
  local status = overdue(rec) and 'expired' or rec.status
  if want ~= '' and status ~= want then
    return false
  end
  if task == '' then
    return true
  end
  if rec.tasks ~= '' and type(redis.pcall('ZSCORE', base .. 'tasks:' .. rec.tasks, task)) ~= 'string' then
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

local found = {}
while looks > 0 and #found < most do
  local ids, count = page(math.min(looks, 100))
  if count == 0 then
    return answer('ok', { '', found })
  end
  for i = 1, count do
    looks, below = looks - 1, ids[i]
    if wanted(ids[i]) then
      found[#found + 1] = view(ids[i])
      if #found == most then
        break
      end
    end
  end
end
return answer('ok', { below, found })
