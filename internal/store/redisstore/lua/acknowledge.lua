-- Acknowledges a pending checkpoint for 1 to 1000 tasks as one step; the last missing
-- acknowledgement completes it and applies retention.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  token of the call
-- ARGV[4]  retention's limits of the server, "keep|age|bytes" (prelude_end.lua)
-- ARGV[5]  number of items; then for each of them
--          task, attempt, epoch ("" = unchecked), digest ("" = none), chunks ("" = no part),
--          and with chunks: bytes, entries, digest, then the chunks
--
-- Body     status, acks, required, then the array of each item (prelude_ack.lua)
-- Refusals job_not_found, checkpoint_not_found, checkpoint_deleted (with next steps)
-- Second run: see prelude_ack.lua; where a bulk was accepted in part, or the checkpoint went in
--          the same step, the kept answer.

local id, token, limits = ARGV[2], ARGV[3], ARGV[4]

local job = find_job()
if not job then
  return refuse({ 'job_not_found' })
end
local rec = read_record(id)
local known = (not rec or ARGV[5] ~= '1') and kept_answer(token)
if known then
  return known
end
if not rec then
  return refuse(absent(job, id, true))
end

local items, at = {}, 6
for i = 1, tonumber(ARGV[5]) do
  local item = { task = ARGV[at], attempt = ARGV[at + 1], epoch = ARGV[at + 2], digest = ARGV[at + 3] }
  local chunks = tonumber(ARGV[at + 4])
  at = at + 5
  if chunks then
    item.part = { chunks = chunks, bytes = ARGV[at], entries = ARGV[at + 1], digest = ARGV[at + 2], first = at + 3 }
    at = at + 3 + chunks
  end
  items[i] = item
end

settle(id, rec)
local results = acknowledge_items(job, id, rec, items, token, limits)
local reply = answer('ok', { rec.status, integer(rec.acked), integer(rec.required), unpack(results) })
-- What was refused or a duplicate was so at its place in the order, which is over.
local accepted = 0
for _, result in ipairs(results) do
  if result[1] == 'acknowledged' then
    accepted = accepted + 1
  end
end
if removed[id] or accepted > 0 and accepted < #results then
  keep_answer(token, reply)
end
return reply
