-- Prelude of the scripts that end checkpoints: after prelude.lua and prelude_event.lua. What
-- a job remembers beyond its records: counts in …stats, completions in …samples, and how many
-- checkpoints failed in a row.
--
-- Fields of the job's hash:
--   okid, okat               the highest id that ever completed, and when one last completed
--   fails, failing           failures since then, "1" when they became more than tolerable
--   f_id, f_at, f_reason, f_task, f_msg
--                            the last failure, which outlives a success
--   s_tolerate, d_tolerate   how many may fail: the job's own setting, or what the server said in
--                            the last call that brought its defaults
--
-- The job's hash and …stats are written when the script answers, see events.close.
--
-- Functions of the lazy table history:
--   count(what)              counts one; an event follows in the same step
--   failed(id, rec)          after the event of one that expired or was declined
--   judge()                  makes a job failing that has failed more often in a row than is
--                            tolerable; for when that number changes
--   completed(id, rec, last_task)
--                            after the event of one that completed; last_task is "" by hand

local history = lazily(function(history)
  function history.count(what)
    local counts = events.open().counts
    counts[what] = (counts[what] or 0) + 1
  end

  local function begin_failing(id, failure)
    local tally = events.open()
    if tally.failing then
      return
    end
    tally.failing, tally.changes.failing = true, '1'
    local fields = { 'fails', integer(tally.fails) }
    events.add_failure(fields, failure)
    events.emit('job.failing', id, fields)
  end

  function history.failed(id, rec)
    local failure, tally = events.failure_of(id, rec), events.open()
    local changes = tally.changes
    changes.f_id, changes.f_at = id, integer(rec.ended)
    changes.f_reason, changes.f_task, changes.f_msg = failure.reason, failure.task, failure.message
    -- An old one that fails behind a newer success says nothing about the job now.
    if tonumber(id) < tally.okid then
      return
    end
    tally.fails = tally.fails + 1
    changes.fails = integer(tally.fails)
    if tally.fails > tally.tolerable then
      begin_failing(id, failure)
    end
  end

  function history.judge()
    local tally = events.open()
    if tally.fails > tally.tolerable then
      local last = redis.call('HMGET', base .. 'job', 'f_id', 'f_reason', 'f_task', 'f_msg')
      begin_failing(last[1] or '', { reason = last[2] or '', task = last[3] or '', message = last[4] or '' })
    end
  end

  -- Most completions leave the trimming to a later one.
  local function add_sample(text)
    local length = redis.pcall('LPUSH', base .. 'samples', text)
    if type(length) == 'number' and length > 1100 then
      redis.call('LTRIM', base .. 'samples', 0, 999)
    end
  end

  function history.completed(id, rec, last_task)
    local tally = events.open()
    local changes = tally.changes
    tally.okid = math.max(tally.okid, tonumber(id))
    changes.okid, changes.okat = integer(tally.okid), integer(now)
    add_sample(table.concat({
      id, integer(now), integer(math.max(0, rec.ended - rec.start)), integer(rec.entries), integer(rec.bytes), integer(rec.acked), last_task,
    }, '|'))
    if tally.fails > 0 then
      tally.fails, changes.fails = 0, '0'
    end
    if tally.failing then
      tally.failing, changes.failing = false, '0'
      events.emit('job.healthy', id, {})
    end
  end
end)
