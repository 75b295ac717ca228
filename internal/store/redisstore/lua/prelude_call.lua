-- Prelude of the scripts that take calls of callers, after prelude_judge.lua: reads a call, and answers
-- it at once where it ends nothing, which is so for most.
--
-- Functions:
--   read_call(first, last)
--       the call that ARGV[first] to ARGV[last] are, in the order of acknowledge.lua, and its id
--   acknowledge_quickly(id, rec, epoch, call)
--       judges, and writes where that ends nothing. rec may be nil. Gives outcomes(rec, plan), or nil
--       where nothing was written, and the plan, or nil where the checkpoint is not, or not any more,
--       simply pending. It leaves those with a task that was not named, and calls that were accepted in part, whose answer has to be kept,
--       and those that run a second time.

local function read_call(first, last)
  local argv = ARGV
  local call = {
    token = argv[first + 1], n = tonumber(argv[first + 3]), attempt = argv[first + 4], number = tonumber(argv[first + 4]),
    epoch = argv[first + 5], digest = '', first = first + 6, details = {},
  }
  local at = call.first + call.n
  while at <= last do
    local item = { attempt = argv[at + 1], number = tonumber(argv[at + 1]), epoch = argv[at + 2], digest = argv[at + 3] }
    local chunks = tonumber(argv[at + 4])
    call.details[tonumber(argv[at])] = item
    at = at + 5
    if chunks then
      item.part = { chunks = chunks, bytes = argv[at], entries = argv[at + 1], digest = argv[at + 2], first = at + 3 }
      at = at + 3 + chunks
    end
  end
  return call, argv[first]
end

local function acknowledge_quickly(id, rec, epoch, call)
  if not rec or rec.status ~= 'pending' or now < rec.start or overdue(rec) then
    return nil, nil
  end
  local plan = judge_items(id, rec, epoch, call)
  if plan.status == 'pending' and not plan.recalled and not plan.unexpected and (plan.accepted == call.n or plan.accepted == 0) then
    write_accepted(id, rec, call, plan)
    return outcomes(rec, plan), plan
  end
  return nil, plan
end
