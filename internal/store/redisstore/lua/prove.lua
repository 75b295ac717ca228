-- Asks whether the server takes changes, and which one it is. It changes nothing, and is refused
-- where a script that changes something would be: by a replica, for want of replicas or of a disk.
-- It has no prelude: its key may be any.
--
-- KEYS[1]  a key that has no time to live, or none at all
-- ARGV[1]  not used, as this needs no clock
--
-- Body     run_id of the server, "" where INFO is forbidden
-- Refusals none; what the server refuses comes as it is
--
-- Second run: finds nothing to change either.

local would = redis.pcall('PERSIST', KEYS[1])
if type(would) == 'table' and would.err then
  return would
end
local info = redis.pcall('INFO', 'server')
return { 'ok', '0', { type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '' } }
