-- Gives up a running upload and leaves its chunks to the sweeper.
--
-- KEYS[1]  the job's hash
-- ARGV[1]  clock (ms, "" = server)
-- ARGV[2]  checkpoint id
-- ARGV[3]  upload id
--
-- Body     nothing, also for an upload that is not running
-- Refusals none
--
-- Second run: the upload is not in the index any more, so nothing happens. The same holds
-- after a commit, which takes the upload out of the index.

if running(ARGV[2], ARGV[3]) then
  abandon_upload(ARGV[2], ARGV[3])
end
return answer('ok', {})
