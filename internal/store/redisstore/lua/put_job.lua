-- Replaces a job's settings, and makes the job if it is new; or changes some of them, of a job that exists. What is pending stays as it is.
--
-- KEYS[1]   the job's hash
-- ARGV[1]   clock (ms, "" = server)
-- ARGV[2]   token of the call
-- ARGV[3]   "1" when the caller has put the job into the list of jobs
-- ARGV[4]   jitter, in [0, 1)
-- ARGV[5…11]  the server's defaults (prelude_settings.lua)
-- ARGV[12…23]  the settings, "" = the server's to say: required, timeout, interval, minimal pause, how
--           many may be pending, tolerable failures, age of a stale one, how many to keep, their
--           age, their bytes, "1" = paused, description
-- ARGV[24]  number of named tasks, "0" = any task may acknowledge
-- ARGV[25]  which of these 13 are changed, a "1" or "0" for each (the last is for the tasks); "" replaces all
-- ARGV[26]  "1" demands that nobody configured the job
-- ARGV[27]  number of tags one of which the settings must have; then the tags
-- ARGV[…]   the name of who asks, for the events; then the names of the tasks, at most 1000; none when they are staged under the token
--
-- Body      the job as job_view gives it, "1" if nobody had configured it
-- Other words
--           register: the job is new, or was deleted; put it into the list of jobs, then call again
--           restage: the staged names are gone; stage them again, then call again
-- Refusals  job_not_found: to a change of some; precondition_failed
-- Second run: finds the kept answer. Without it, it would count one more revision, undo what
--           somebody else put in between, and be refused under its own condition.

local token, registered, jitter = ARGV[2], ARGV[3] == '1', tonumber(ARGV[4])
local named, which, tags = tonumber(ARGV[24]), ARGV[25], tonumber(ARGV[27])
local first = 29 + tags
caller = ARGV[28 + tags]
local staged = named > 0 and #ARGV < first

local known = kept_answer(token)
if known then
  return known
end
if which ~= '' and not find_job() then
  return refuse({ 'job_not_found' })
end
local job = read_job()
if (not job.known or job.gone) and not registered then
  return answer('register', {})
end

local had = redis.call('HMGET', base .. 'job', 'configured', 'srev', 'due', 's_names', 'sch_at')
local configured, revision, due = had[1] == '1', tonumber(had[2] or '0'), tonumber(had[3] or '0')
local before = settings(5)
if not met(configured and integer(revision), ARGV[26] == '1', 28, tags) then
  if staged then
    redis.call('UNLINK', base .. 'tasks:' .. token)
    redis.call('ZREM', base .. 'stages', token)
  end
  return refuse({ 'precondition_failed' })
end
if staged and not list_is_whole(token, named) then
  return answer('restage', {})
end

local names = { 's_required', 's_timeout', 's_interval', 's_minpause', 's_pending', 's_tolerate', 's_stale', 's_keep', 's_age',
  's_bytes', 's_paused', 's_desc' }
local set, unset = {}, { 'gone' }
local function changed(i)
  return which == '' or string.sub(which, i, i) == '1'
end
local function put(name, value)
  if value == '' then
    unset[#unset + 1] = name
  else
    set[#set + 1] = name
    set[#set + 1] = value
  end
end
for i, name in ipairs(names) do
  if changed(i) then
    put(name, ARGV[11 + i])
  end
end
if changed(13) then
  put('s_named', named > 0 and integer(named) or '')
  put('s_names', named > 0 and token or '')
end
for _, value in ipairs({ 'next', integer(job.next), 'epoch', integer(job.epoch), 'configured', '1', 'srev', integer(revision + 1), noted(before) }) do
  set[#set + 1] = value
end

-- The first write needs memory, so that a full Redis refuses before anything changed.
redis.call('HSET', base .. 'job', unpack(set))
redis.call('HDEL', base .. 'job', unpack(unset))
if had[4] and changed(13) then
  redis.call('UNLINK', base .. 'tasks:' .. had[4])
end
if staged then
  redis.call('ZREM', base .. 'stages', token)
elseif named > 0 then
  local members = {}
  for i = first, #ARGV do
    members[#members + 1] = integer(i - first)
    members[#members + 1] = ARGV[i]
  end
  redis.call('ZADD', base .. 'tasks:' .. token, unpack(members))
end

local after = settings(5)
if after.interval == 0 or after.paused then
  redis.call('HDEL', base .. 'job', 'due')
elseif due == 0 or before.paused or before.interval ~= after.interval or before.pause ~= after.pause then
  redis.call('HSET', base .. 'job', 'due', integer(begin_due(after, jitter, tonumber(had[5] or '0'))))
end
events.emit('job.configured', '', events.add_caller({}))
history.judge()
events.close()
local reply = answer('ok', { job_view(), configured and '0' or '1' })
keep_answer(token, reply)
return reply
