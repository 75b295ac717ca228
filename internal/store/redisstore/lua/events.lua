-- Reads on in a job's log, or says that it does not have what follows.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  id of the last event that the caller has, "" asks for the end of the log only
-- ARGV[3]  how many events to answer at most
--
-- Body     id of the newest event or "", "1" when ARGV[2] is not in the log, { id, { pairs }, … },
--          then with a gap { view, … } of what is pending and not overdue, oldest first
-- Refusals job_not_found; of a deleted job, only at the end of its log or where that does not have
--          ARGV[2]: who followed it is told how it ended
--
-- Second run: reads only.

local after, most = ARGV[2], ARGV[3]
local job = read_job()
local there = job.known and not job.gone
local position = redis.call('HGET', base .. 'job', 'evlast') or ''

-- A value of another type under the name of the log is not ours: nothing is in it.
local function range(from, to, limit)
  local entries = redis.pcall('XRANGE', base .. 'events', from, to, 'COUNT', limit)
  return entries.err and {} or entries
end

-- The zero id stands before the first event, whose number is 1, as long as that is there.
local function known()
  if after == '0-0' then
    local first = range('-', '+', 1)[1]
    return position == '' or first and string.match(first[1], '%-1$')
  end
  return #range(after, after, 1) > 0
end

if not there and (not job.known or after == '' or after == position or not known()) then
  return refuse({ 'job_not_found' })
end
if after == '' or after == position then
  return answer('ok', { position, '0', {}, {} })
end
if known() then
  local rows = {}
  for _, entry in ipairs(range(after == '0-0' and '-' or '(' .. after, '+', most)) do
    rows[#rows + 1] = entry[1]
    rows[#rows + 1] = entry[2]
  end
  return answer('ok', { position, '0', rows, {} })
end
local pending = {}
for _, id in ipairs(redis.call('ZRANGE', base .. 'pending', 0, -1)) do
  local rec = read_record(id)
  if rec and rec.status == 'pending' and not overdue(rec) then
    pending[#pending + 1] = id
  end
end
return answer('ok', { position, '1', {}, views(pending) })
