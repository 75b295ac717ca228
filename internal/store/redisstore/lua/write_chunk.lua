-- Makes room for one chunk of a running upload under its index, and counts it. In the same
-- transaction follows SET … XX with the bytes, which would take twice as long through
-- Lua, and stores them only where there is room.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  upload id
-- ARGV[4]  index of the chunk, from 0
-- ARGV[5]  bytes of the chunk, at least 1
--
-- Body     nothing
-- Refusals upload_lost: the upload is not in the index any more, since its lease ran out,
--          it was given up, or it was committed. No room was made, so that a chunk that
--          comes after its upload never becomes garbage that nothing names. Where its key
--          is still there, in a part or in garbage, SET writes the same bytes again
--          store_full: what is left of maxmemory is kept for what is small, a twentieth of it
--          and 64 MiB at most. Without, uploads would fill Redis to the brim, and the
--          acknowledgements of other jobs would be refused with them. It is looked at with
--          every fourth chunk, since INFO takes a tenth as long as the chunk; where INFO may
--          not be called, nothing is kept
--
-- Second run: finds the same number of bytes at the same place, and the tally moves by the
-- difference to what was there, which is nothing then.

local id, upload, index, bytes = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if not running(id, upload) then
  return refuse({ 'upload_lost' })
end

if tonumber(index) % 4 == 0 then
  local info = redis.pcall('INFO', 'memory')
  if type(info) == 'string' then
    local used = tonumber(info:match('used_memory:(%d+)')) or 0
    local most = tonumber(info:match('maxmemory:(%d+)')) or 0
    if most > 0 and used + bytes > most - math.min(most / 20, 67108864) then
      return refuse({ 'store_full' })
    end
  end
end

local key = checkpoint_key(id, 'part:' .. upload .. ':' .. index)
local tally = checkpoint_key(id, 'upload:' .. upload)
local before = redis.call('STRLEN', key)
if before == 0 then
  redis.call('SET', key, '')
  redis.call('HINCRBY', tally, 'n', 1)
end
redis.call('HINCRBY', tally, 'bytes', integer(bytes - before))
local top = redis.call('HGET', tally, 'top')
if not top or tonumber(top) <= tonumber(index) then
  redis.call('HSET', tally, 'top', integer(tonumber(index) + 1))
end
return answer('ok', {})
