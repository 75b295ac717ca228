-- Prelude of the scripts that meet checkpoints under import: after prelude_end.lua.
--
-- A checkpoint that an import has begun and not finished is a record of which the field v is
-- "import:<token>" and not "1". So it is none for everybody who does not know the token, servers before
-- this one included. It is in no index but …importing, id → end of its lease (Unix ms), and
-- its status and timeout say nothing: nothing acknowledges, ends or expires it.
--
-- Functions:
--   import_mark(token)           v of a record that the import with this token has begun
--   importing(id, token)         the record of one that it has begun, or nil
--   subject(id, token)           the same, or with "" any other record
--   drop_import(id)              removes one that is under import, and leaves anything else

local function import_mark(token)
  return 'import:' .. token
end

local function importing(id, token)
  return read_record(id, base .. id, import_mark(token))
end

local function subject(id, token)
  if token == '' then
    return read_record(id)
  end
  return importing(id, token)
end

local function drop_import(id)
  -- As everything that frees memory: it must work when Redis is full.
  allow_full()
  local had = redis.pcall('HMGET', base .. id, 'v', 'tasks')
  if not had.err and had[1] and string.sub(had[1], 1, 7) == 'import:' then
    redis.call('UNLINK', base .. id, checkpoint_key(id, 'acks'), checkpoint_key(id, 'acked'), checkpoint_key(id, 'state'),
      checkpoint_key(id, 'staged'))
    if had[2] and had[2] ~= '' then
      redis.call('UNLINK', base .. 'tasks:' .. had[2], base .. 'missing:' .. had[2])
    end
    if redis.call('EXISTS', checkpoint_key(id, 'parts')) == 1 then
      redis.call('ZADD', base .. 'garbage', integer(now), 'parts:' .. id)
    end
  end
  redis.call('ZREM', base .. 'importing', id)
end
