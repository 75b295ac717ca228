-- Reads what a job's statistics are made of.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
--
-- Body     the job as job_view gives it, { pairs of …stats }, { sample, … }, { restore, … }: newest
--          first, as they are stored
-- Refusals job_not_found
-- Second run: reads only.

if not find_job() then
  return refuse({ 'job_not_found' })
end

-- A value of another type under these names is not ours: nothing is in it.
local function read(...)
  local found = redis.pcall(...)
  return found.err and {} or found
end

return answer('ok', {
  job_view(), read('HGETALL', base .. 'stats'), read('LRANGE', base .. 'samples', 0, 999), read('LRANGE', base .. 'restores', 0, -1),
})
