-- Acknowledges several pending checkpoints of a job, each by a call as acknowledge.lua takes it, where
-- that ends nothing: such a call is left alone, and acknowledge.lua has to be asked.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  … for each call the number of its arguments, then these: ARGV[2] and up of acknowledge.lua
--
-- Body     for each call the body of acknowledge.lua, an error where the call met one, or an empty
--          array where it was left alone. What becomes of one is nothing to the others
-- Refusals none; without the job every call is left alone
-- Second run: leaves those alone that the first has accepted, which acknowledge.lua then finds
--          under the same token; the others are refused, or repeated, once more

local job = find_job()
local bodies, at = {}, 2
while ARGV[at] do
  local first, last = at + 1, at + tonumber(ARGV[at])
  local fine, body = true, nil
  if job then
    local call, id = read_call(first, last)
    fine, body = pcall(acknowledge_quickly, id, read_record(id), job.epoch, call)
    if not fine then
      -- Redis raises tables from version 7 on.
      body = { err = type(body) == 'table' and body.err or tostring(body) }
    end
  end
  bodies[#bodies + 1] = body or {}
  at = last + 1
end
return { 'ok', now, bodies }
