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
-- Functions of the lazy table history:
--   count(what)              counts one
--   failed(id, rec)          after the event of one that expired or was declined
--   completed(id, rec, last_task)
--                            after the event of one that completed; last_task is "" by hand

local history = lazily(function(history)
  function history.count(what)
    redis.call('HINCRBY', base .. 'stats', what, 1)
  end

  function history.failed(id, rec)
    local failure = events.failure_of(id, rec)
    redis.call('HSET', base .. 'job', 'f_id', id, 'f_at', integer(rec.ended),
      'f_reason', failure.reason, 'f_task', failure.task, 'f_msg', failure.message)
    local field = redis.call('HMGET', base .. 'job', 'okid', 'fails', 'failing', 's_tolerate', 'd_tolerate')
    -- An old one that fails behind a newer success says nothing about the job now.
    if field[1] and tonumber(id) < tonumber(field[1]) then
      return
    end
    local fails = tonumber(field[2] or '0') + 1
    redis.call('HSET', base .. 'job', 'fails', integer(fails))
    if field[3] ~= '1' and fails > tonumber(field[4] or field[5] or '0') then
      redis.call('HSET', base .. 'job', 'failing', '1')
      local fields = { 'fails', integer(fails) }
      events.add_failure(fields, failure)
      events.emit('job.failing', id, fields)
    end
  end

  function history.completed(id, rec, last_task)
    local field = redis.call('HMGET', base .. 'job', 'okid', 'fails', 'failing')
    local highest = math.max(tonumber(id), tonumber(field[1] or '0'))
    redis.call('HSET', base .. 'job', 'okid', integer(highest), 'okat', integer(now))
    redis.call('LPUSH', base .. 'samples', table.concat({
      id, integer(now), integer(math.max(0, rec.ended - rec.start)), integer(rec.entries), integer(rec.bytes), integer(rec.acked), last_task,
    }, '|'))
    redis.call('LTRIM', base .. 'samples', 0, 999)
    if (field[2] or '0') ~= '0' then
      redis.call('HSET', base .. 'job', 'fails', '0')
    end
    if field[3] == '1' then
      redis.call('HSET', base .. 'job', 'failing', '0')
      events.emit('job.healthy', id, {})
    end
  end
end)
