-- Moves the record of an adopted checkpoint to its own name, in place of what it was read from,
-- which is gone then: no other program reads the checkpoint any more.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
--
-- Body     empty
-- Other words
--          absent: nothing is adopted under this id
--          changed: there is another value now than the one that it was read from
-- Refusals none
-- Second run: answers absent.

local id = ARGV[2]
local fields = redis.pcall('HGETALL', checkpoint_key(id, 'adopted'))
local source
for i = 1, #fields, 2 do
  if fields[i] == 'source' then
    source = fields[i + 1]
  end
end
if not source then
  return answer('absent', {})
end
local length = redis.pcall('STRLEN', base .. id)
if type(length) ~= 'number' or length > 0 and integer(length) ~= source then
  return answer('changed', {})
end
allow_full()
redis.call('UNLINK', base .. id)
redis.call('HSET', base .. id, unpack(fields))
redis.call('HDEL', base .. id, 'source')
redis.call('UNLINK', checkpoint_key(id, 'adopted'))
return answer('ok', {})
