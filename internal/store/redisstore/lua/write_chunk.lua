-- Stores one chunk of a running upload under its index.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  upload id
-- ARGV[4]  index of the chunk, from 0
-- ARGV[5]  the chunk, never empty
--
-- Body     nothing
-- Refusals upload_lost: the upload is not in the index any more, since its lease ran out,
--          it was given up, or it was committed. Nothing was stored: a chunk that comes
--          after its upload never becomes garbage that nothing names
--
-- Second run: stores the same bytes at the same place, and the tally moves by the
-- difference to what was there, which is nothing then.

local id, upload, index, chunk = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not running(id, upload) then
  return refuse({ 'upload_lost' })
end

local key = checkpoint_key(id, 'part:' .. upload .. ':' .. index)
local tally = checkpoint_key(id, 'upload:' .. upload)
local before = redis.call('STRLEN', key)
redis.call('SET', key, chunk)
if before == 0 then
  redis.call('HINCRBY', tally, 'n', 1)
end
redis.call('HINCRBY', tally, 'bytes', integer(#chunk - before))
local top = redis.call('HGET', tally, 'top')
if not top or tonumber(top) <= tonumber(index) then
  redis.call('HSET', tally, 'top', integer(tonumber(index) + 1))
end
return answer('ok', {})
