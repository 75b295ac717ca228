-- Prelude of the scripts that acknowledge: after prelude_judge.lua, prelude_end.lua and
-- prelude_repeat.lua.
--
-- Functions:
--   contradicts(id, rec, plan)
--       refusal inconsistent where a plan completes a checkpoint, or turns a task away that nobody named, of
--       which the record counts other acknowledgements or tasks than are listed; or nil. To be asked before
--       anything is written
--   acknowledge_items(id, rec, call, plan, limits)
--       does what a plan says: writes what was accepted, completes the checkpoint and applies
--       retention if an item reached the required number, and tells those who were late where to
--       go on. The caller has settled rec before it was judged. Gives outcomes(rec, plan).
--
-- Second run: an item whose stored acknowledgement carries the call's token was accepted
-- by the first run, and answers its place in the order again.

local function contradicts(id, rec, plan)
  if plan.unexpected or rec.status == 'pending' and plan.status == 'completed' then
    return uneven(id, rec)
  end
  return nil
end

local function acknowledge_items(id, rec, call, plan, limits)
  write_accepted(id, rec, call, plan)
  if rec.status == 'pending' and plan.status == 'completed' then
    ends.complete_pending(id, rec, call.token, plan.last)
    ends.apply_retention(limits, 100)
  end
  if plan.completed then
    report_end(before, id, rec, '')
  end
  -- Only now: an item after the completing one is to hear of this very completion.
  if plan.late then
    local refusal = ended_refusal(rec)
    for _, place in ipairs(plan.late) do
      plan.details[place] = refusal
    end
  end
  return outcomes(rec, plan)
end
