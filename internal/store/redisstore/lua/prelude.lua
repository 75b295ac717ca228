-- Prelude of every script, after prelude_base.lua: how scripts look around and answer. It reads
-- only; other preludes have what writes.
--
-- A replica runs no script to its end, also where it may serve reads: what it lacks it may only not have
-- heard of yet, and who is told that there is nothing begins with nothing. A change that finds nothing to change
-- tells. It must be one that a full Redis refuses, as it refuses only the first change of a script: after one that
-- needs no room, an UNLINK, it would take all others.
--
-- Every script answers { word, now, body, ended, evicted, before } (reply.go reads it); the last
-- three may be left out:
--   word     "ok", another word of the script's own, or the code of a refusal
--   body     what the script's header says; the arguments of a refusal
--   ended    what reached a terminal status: id, status, reason, duration ms, acks, …
--   evicted  ids that retention removed
--   before   like ended, what a first run of this very call had ended; the caller has heard
--            of it unless the first reply was lost
--
-- Values (locals): ended, evicted, before.
-- Functions:
--   lazily(build)                a table whose functions build(table) makes when one of them is first
--                                asked for
--   answer(word, body)           the reply of a script
--   refuse(refusal)              the reply for a refusal { word, argument, … }
--   pending_now()                how many are pending and not overdue
--   view(id)                     { id, { missing names }, { record pairs } } for parseCheckpoint,
--                                or nil; expiry is not derived here but by the reader
--   views(ids)                   the views of those ids that have one
--   usable(rec)                  whether a completed one is neither damaged nor set aside
--   latest_completed()           highest completed id that is usable and can be restored, and its record; or nil,
--                                and the refusal that names the highest one where some completed: damaged,
--                                all_set_aside, unsupported_version, or inconsistent, see absent
--   next_steps()                 current id or "", latest id or ""
--   inconsistent(id)             refusal inconsistent: id, what makes no sense; where an index has the
--                                id though it has no whole record. Or nil: then it is surely not there
--   absent(job, id, late)        refusal for an id without a whole record: inconsistent, or
--                                checkpoint_deleted or checkpoint_not_found; late adds the next steps to these
--   uneven(id, rec)              refusal inconsistent where the record counts other acknowledgements than
--                                are listed, or nil
--   check_sender(job, id, rec, task, epoch, attempt)
--                                task_not_expected, stale_epoch, stale_attempt, or nil. task "" is
--                                nobody, epoch "" is not checked; both are strings as in ARGV
--   ended_refusal(rec)           refusal checkpoint_<status> with the next steps
--   met(tag, must_not_exist, first, count)
--                                whether a resource with this entity tag, nil or false for one that does not exist, meets a
--                                precondition whose tags are ARGV[first …]; "*" is any

local replica = redis.pcall('ZADD', base .. 'void', 'XX', '0', '')
if type(replica) == 'table' and replica.err and string.find(replica.err, 'READONLY', 1, true) then
  return replica
end

local ended, evicted, before = {}, {}, {}

-- Making a function takes Redis about as long as a small command. Most calls are of the kind
-- that has to be quick, an acknowledgement that ends nothing, and need few of them.
local function lazily(build)
  return setmetatable({}, { __index = function(group, name)
    setmetatable(group, nil)
    build(group)
    return group[name]
  end })
end

-- prelude_end.lua has work left for when the script has looked at everything.
local before_answer

local function answer(word, body)
  if before_answer then
    before_answer()
  end
  return { word, now, body, ended, evicted, before }
end

local function refuse(refusal)
  local arguments = {}
  for i = 2, #refusal do
    arguments[i - 1] = refusal[i]
  end
  return answer(refusal[1], arguments)
end

local function pending_now()
  return redis.call('ZCARD', base .. 'pending') - redis.call('ZCOUNT', base .. 'deadlines', '-inf', '(' .. integer(now))
end

local function view(id, beside)
  local pairs_of = redis.pcall('HGETALL', beside or base .. id)
  local ours, tasks, status = false, '', ''
  for i = 1, #pairs_of, 2 do
    local name, value = pairs_of[i], pairs_of[i + 1]
    if name == 'v' then
      ours = value == '1'
    elseif name == 'tasks' then
      tasks = value
    elseif name == 'status' then
      status = value
    end
  end
  if not ours then
    return not beside and view(id, checkpoint_key(id, 'adopted')) or nil
  end
  local missing = {}
  if tasks ~= '' and status ~= 'completed' then
    local names = redis.pcall('ZRANGE', base .. 'missing:' .. tasks, 0, 19)
    if not names.err then
      missing = names
    end
  end
  return { id, missing, pairs_of }
end

local function views(ids)
  local found = {}
  for _, id in ipairs(ids) do
    found[#found + 1] = view(id)
  end
  return found
end

-- Removing a checkpoint takes its record and its places in the indexes in one step. So an index that
-- has the id of one without a whole record shows that something else took or changed the record (a hand, an
-- eviction by Redis, a newer server), and what became of the checkpoint is not known.
local function inconsistent(id)
  if read_record(id) then
    return nil
  end
  if redis.call('ZSCORE', base .. 'index', id) or redis.call('ZSCORE', base .. 'completed', id) then
    return { 'inconsistent', id, 'the record' }
  end
  return nil
end

local function usable(rec)
  return rec.damage == '' and not rec.aside
end

-- The highest snapshot version that servers of this version restore: coordinator.SnapshotVersion.
local RESTORABLE = 1

-- One that is known to be damaged, set aside, or of a later version, is passed over: its record says so to whoever
-- asks. One that makes no sense is not, since nobody has decided anything about it; a fleet would silently
-- go back behind it.
local function newest_restorable()
  local refusal = nil
  for from = 0, 900, 100 do
    local ids = redis.call('ZREVRANGE', base .. 'completed', from, from + 99)
    for _, id in ipairs(ids) do
      local rec = read_record(id)
      if not rec or rec.status ~= 'completed' then
        return nil, { 'inconsistent', id, 'the record' }
      elseif rec.damage ~= '' then
        refusal = refusal or { 'damaged', id, rec.damage }
      elseif rec.aside then
        refusal = refusal or { 'all_set_aside', id }
      elseif rec.version > RESTORABLE then
        refusal = refusal or { 'unsupported_version', id, integer(rec.version) }
      else
        return id, rec
      end
    end
    if #ids < 100 then
      break
    end
  end
  return nil, refusal
end

-- The job's hash has the highest id that ever completed (prelude_history.lua). Where that one is still
-- there, completed, and not listed as such, the list has lost it.
local function latest_completed()
  local id, rec = newest_restorable()
  local highest = redis.call('HGET', base .. 'job', 'okid')
  if highest and (not id or tonumber(highest) > tonumber(id)) and not redis.call('ZSCORE', base .. 'completed', highest) then
    local unlisted = read_record(highest)
    if unlisted and unlisted.status == 'completed' then
      return nil, { 'inconsistent', highest, 'the list of completed checkpoints' }
    elseif not unlisted and inconsistent(highest) then
      return nil, inconsistent(highest)
    end
  end
  return id, rec
end

local function next_steps()
  local current = ''
  for _, id in ipairs(redis.call('ZREVRANGE', base .. 'pending', 0, 99)) do
    local rec = read_record(id)
    if rec and rec.status == 'pending' and not overdue(rec) then
      current = id
      break
    end
  end
  return current, latest_completed() or ''
end

local function absent(job, id, late)
  local unknown = inconsistent(id)
  if unknown then
    return unknown
  end
  local word = 'checkpoint_not_found'
  if tonumber(id) < job.next then
    word = 'checkpoint_deleted'
  end
  if late then
    return { word, next_steps() }
  end
  return { word }
end

local function uneven(id, rec)
  if redis.pcall('HLEN', checkpoint_key(id, 'acks')) ~= rec.acked then
    return { 'inconsistent', id, 'the list of acknowledgements' }
  end
  local sorted, waiting = redis.pcall('ZCARD', checkpoint_key(id, 'acked')), redis.pcall('LLEN', checkpoint_key(id, 'unsorted'))
  if type(sorted) ~= 'number' or type(waiting) ~= 'number' or sorted + waiting ~= rec.acked then
    return { 'inconsistent', id, 'the order of acknowledgements' }
  end
  if rec.tasks ~= '' and redis.pcall('ZCARD', base .. 'tasks:' .. rec.tasks) ~= rec.required then
    return { 'inconsistent', id, 'the list of tasks' }
  end
  return nil
end

local function check_sender(job, id, rec, task, epoch, attempt)
  if task ~= '' and rec.tasks ~= '' and not redis.call('ZSCORE', base .. 'tasks:' .. rec.tasks, task) then
    return uneven(id, rec) or { 'task_not_expected', task }
  end
  if epoch ~= '' and tonumber(epoch) ~= job.epoch then
    return { 'stale_epoch', epoch, integer(job.epoch) }
  end
  if task ~= '' then
    local highest = redis.call('HGET', base .. 'attempts', task)
    if highest and tonumber(highest) > tonumber(attempt) then
      return { 'stale_attempt', task, attempt, highest }
    end
  end
  return nil
end

local function ended_refusal(rec)
  return { 'checkpoint_' .. rec.status, next_steps() }
end

local function met(tag, must_not_exist, first, count)
  local matches = count == 0
  for i = first, first + count - 1 do
    matches = matches or tag and (ARGV[i] == '*' or ARGV[i] == tag)
  end
  return matches and not (tag and must_not_exist)
end
