-- Prelude of the scripts that change what a job's log tells of: after prelude.lua.
--
-- The log is the stream …events. An entry's id is "<epoch>-<seq>", its fields are those of
-- parseEvent (events.go), with miss once for each missing task. Its end is the job's field evlast,
-- which answering moves: all events of a step are there when the first waiter is woken. With it
-- goes what prelude_history.lua has to write, in one command however much a step changes.
--
-- Values: caller, the name of who asked for the change, "" until a script sets it.
-- Functions of the lazy table events:
--   running()                 run_id of the server, "" where INFO is forbidden
--   open()                    the log's end: { epoch, seq, keep }; what raises the epoch sets it here;
--                             and for prelude_history.lua { okid, fails, failing, tolerable, changes,
--                             counts }: fields of the job's hash and counts in …stats to come
--   emit(kind, id, fields)    appends one event about a checkpoint, "" for none; fields is a list
--   checkpoint(kind, id, rec, why)
--                             appends checkpoint.<kind>, as rec is now; why is for deleted ones.
--                             rec.failure is { reason, task, message } of one that failed
--   failure_of(id, rec)       that failure, read from the record of one that ended uncompleted
--   add_failure(fields, failure)
--                             appends it to the fields of an event
--   add_caller(fields)        appends who asked for the change to the fields of an event
--   close()                   saves the end and wakes who listens; answering calls it if there is any.
--                             What removes fields or counts of history calls it before

local log, run_id
local caller = ''

local events = lazily(function(events)
  function events.running()
    if not run_id then
      local info = redis.pcall('INFO', 'server')
      run_id = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
    end
    return run_id
  end

  function events.open()
    if not log then
      local field = redis.call('HMGET', base .. 'job', 'epoch', 'evlast', 'd_events', 'okid', 'fails', 'failing', 's_tolerate', 'd_tolerate',
        'evrun', 'evfloor')
      local newest = field[2]
      if not newest then
        local entries = redis.pcall('XREVRANGE', base .. 'events', '+', '-', 'COUNT', 1)
        newest = entries[1] and entries[1][2][1] == 'type' and entries[1][1]
      end
      local seq = string.match(newest or '', '%-(%d+)$')
      log = {
        epoch = tonumber(field[1] or '') or read_job().epoch, seq = math.max(tonumber(seq or '0'), tonumber(field[10] or '0')), keep = field[3] or '10000',
        okid = tonumber(field[4] or '-1'), fails = tonumber(field[5] or '0'), failing = field[6] == '1',
        tolerable = tonumber(field[7] or field[8] or '0'), changes = {}, counts = {},
      }
      -- Another server than the one that wrote the last event may have lost some that were
      -- read: their numbers are passed over, so that nobody takes what follows for them.
      if events.running() ~= '' and field[9] ~= events.running() then
        log.changes.evrun = events.running()
        if field[9] then
          log.seq, log.jumped = log.seq + 1000, true
        end
      end
    end
    return log
  end

  local function append_event(fields)
    log.seq = log.seq + 1
    log.last = integer(log.epoch) .. '-' .. integer(log.seq)
    local added = redis.pcall('XADD', base .. 'events', 'MAXLEN', '~', log.keep, log.last, unpack(fields))
    return type(added) == 'string'
  end

  -- A log that is ahead of its job's hash, which somebody must have removed, would refuse every
  -- event, and with it leave every change half written. What is not ours stays as it is.
  function events.emit(kind, id, fields)
    events.open()
    local all = { 'type', kind, 'at', integer(now), 'id', id }
    for _, value in ipairs(fields) do
      all[#all + 1] = value
    end
    if append_event(all) then
      return
    end
    local newest = redis.pcall('XREVRANGE', base .. 'events', '+', '-', 'COUNT', 1)
    if newest.err or newest[1] and newest[1][2][1] ~= 'type' then
      return
    end
    if newest[1] then
      log.seq = math.max(log.seq, tonumber(string.match(newest[1][1], '%-(%d+)$')))
    end
    if not append_event(all) then
      redis.call('UNLINK', base .. 'events')
      append_event(all)
    end
  end

  function events.failure_of(id, rec)
    if not rec.failure then
      local field = redis.call('HMGET', rec.key, 'reason', 'ftask', 'fmsg')
      rec.failure = { reason = field[1] or '', task = field[2] or '', message = field[3] or '' }
    end
    return rec.failure
  end

  function events.add_failure(fields, failure)
    for _, field in ipairs({ { 'reason', failure.reason }, { 'task', failure.task }, { 'msg', failure.message } }) do
      if field[2] ~= '' then
        fields[#fields + 1] = field[1]
        fields[#fields + 1] = field[2]
      end
    end
  end

  function events.add_caller(fields)
    if caller ~= '' then
      fields[#fields + 1] = 'by'
      fields[#fields + 1] = caller
    end
    return fields
  end

  function events.checkpoint(kind, id, rec, why)
    local fields = { 'status', rec.status, 'req', integer(rec.required), 'acked', integer(rec.acked) }
    local function add(name, value)
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    if rec.status == 'pending' then
      if rec.timeout > 0 then
        add('deadline', integer(rec.start + rec.timeout))
      end
    else
      add('dur', integer(math.max(0, rec.ended - rec.start)))
    end
    if rec.status == 'completed' then
      add('entries', integer(rec.entries))
      add('bytes', integer(rec.bytes))
    elseif rec.status ~= 'pending' then
      events.add_failure(fields, events.failure_of(id, rec))
    end
    if why then
      add('why', why)
    end
    if kind == 'updated' and rec.pinned then
      add('pinned', '1')
    end
    if kind == 'updated' and rec.aside then
      add('aside', '1')
    end
    if rec.tasks ~= '' and rec.status ~= 'completed' then
      local names = redis.pcall('ZRANGE', base .. 'missing:' .. rec.tasks, 0, 19)
      for i = 1, #names do
        add('miss', names[i])
      end
    end
    -- Nobody asks for what time and retention do.
    if kind ~= 'expired' and why ~= 'retention' then
      events.add_caller(fields)
    end
    events.emit('checkpoint.' .. kind, id, fields)
  end

  -- An ACL may forbid to publish; whoever listens then looks once a second.
  function events.close()
    if not (log and log.last) then
      return
    end
    local fields = { 'evlast', log.last }
    for name, value in pairs(log.changes) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', base .. 'job', unpack(fields))
    -- A foreign value under the name of the counts must not break off what was written before.
    for what, n in pairs(log.counts) do
      redis.pcall('HINCRBY', base .. 'stats', what, n)
    end
    log.last, log.changes, log.counts = nil, {}, {}
    local prefix, job = string.match(base, '^(.*){([^{}]*)}:$')
    redis.pcall('PUBLISH', (prefix or base) .. 'wake', job or 'default')
  end
end)
