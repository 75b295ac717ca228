-- Prelude of the scripts that an Idempotency-Key, or a lost reply, may repeat: after
-- prelude.lua and prelude_end.lua.
--
-- What a call did is kept as "id|epoch|token|ended|fingerprint" under …idem:<name>, with a time to
-- live that each use starts anew. id is "-" where a recovery found nothing completed, ended
-- are the ids that it ended, with commas. The token tells a repeat after a lost reply
-- from another call with the same key: only the latter is a repetition to its caller.
--
-- Acknowledgements, completions and aborts keep their token in the record, from which a
-- repeat is answered. Where the record cannot tell, since it went in the very step (retention
-- may take the one that has just completed) or since some items of a bulk were not accepted,
-- the reply itself is kept under …idem:answer:<token>, for longer than a caller asks again.
-- So it is for calls that leave no record: settings, schedules, attempts, restores.
--
-- Functions:
--   recall(name)        { id, epoch, token, ended = { ids }, fingerprint } or nil
--   remember(name, ttl, id, epoch, token, ended, fingerprint)
--   refresh(name, ttl)  starts the time to live anew; needs no memory
--   keep_answer(token, reply)
--                       keeps a reply; it must not be the first write of the script
--   kept_answer(token)  that reply, what it ended moved to what a first run ended; or nil

local function recall(name)
  local text = redis.call('GET', base .. 'idem:' .. name)
  if not text then
    return nil
  end
  local id, epoch, token, ids, fingerprint = string.match(text, '^([^|]*)|(%d+)|([^|]*)|([^|]*)|(.*)$')
  if not id then
    return nil
  end
  local known = { id = id, epoch = epoch, token = token, ended = {}, fingerprint = fingerprint }
  for one in string.gmatch(ids, '%d+') do
    known.ended[#known.ended + 1] = one
  end
  return known
end

local function remember(name, ttl, id, epoch, token, ids, fingerprint)
  local text = table.concat({ id, epoch, token, table.concat(ids, ','), fingerprint }, '|')
  redis.call('SET', base .. 'idem:' .. name, text, 'PX', ttl)
end

local function refresh(name, ttl)
  redis.call('PEXPIRE', base .. 'idem:' .. name, ttl)
end

local function keep_answer(token, reply)
  redis.call('SET', base .. 'idem:answer:' .. token, cmsgpack.pack(reply), 'PX', 10000)
end

local function kept_answer(token)
  local text = redis.call('GET', base .. 'idem:answer:' .. token)
  if not text then
    return nil
  end
  local reply = cmsgpack.unpack(text)
  reply[4], reply[5], reply[6] = {}, {}, reply[4]
  return reply
end
