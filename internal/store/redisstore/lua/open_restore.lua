-- Leases a completed checkpoint for reading.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id, or "latest" for the latest completed one
-- ARGV[3]  highest snapshot version that the caller reads
-- ARGV[4]  lease id
-- ARGV[5]  lease, ms; 0 takes none
--
-- Body     view, digest of the shared state or "" where it is not known yet
-- Refusals job_not_found, no_completed_checkpoint, checkpoint_not_found, checkpoint_deleted;
--          checkpoint_not_completed: id, status; unsupported_version: id, version;
--          damaged: id, what is not there as recorded
-- Also     again, see prelude_sort.lua
--
-- Second run: renews the lease.

local most_version, token, lease = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local found, refusal = find(ARGV[2])
if not found then
  return refuse(refusal)
end
local id, rec = found.id, found.rec
if rec.status ~= 'completed' then
  return refuse({ 'checkpoint_not_completed', id, rec.status })
end
if rec.version > most_version then
  return refuse({ 'unsupported_version', id, integer(rec.version) })
end

if sort_acks(found.id) then
  return answer('again', {})
end
local shared = redis.call('HMGET', rec.key, 'sentries', 'sdigest')
if redis.pcall('HLEN', checkpoint_key(id, 'state')) ~= tonumber(shared[1] or '0') then
  return refuse({ 'damaged', id, 'the shared state' })
end
local contradiction = uneven(id, rec)
if contradiction then
  return refuse({ 'damaged', id, contradiction[3] })
end

if lease > 0 then
  -- Reading goes on when Redis is full: a script that has written once may go on to write.
  redis.call('ZREMRANGEBYSCORE', checkpoint_key(id, 'leases'), '-inf', '(' .. integer(now))
  redis.call('ZADD', checkpoint_key(id, 'leases'), integer(now + lease), token)
end
return answer('ok', { view(id), shared[2] or '' })
