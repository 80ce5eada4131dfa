-- What a turn can be played again with by hand, and what it cost.
ALTER TABLE attempts ADD COLUMN launch TEXT;
ALTER TABLE attempts ADD COLUMN model TEXT;
ALTER TABLE attempts ADD COLUMN usage TEXT;

-- Some codes have other names now. Logs keep the words that were said.
UPDATE runs SET error = replace(error, '"code":"ENGINE_KILLED"', '"code":"ENGINE_CRASHED"') WHERE error LIKE '%ENGINE_KILLED%';
UPDATE attempts SET evidence = replace(evidence, '"code":"ENGINE_KILLED"', '"code":"ENGINE_CRASHED"') WHERE evidence LIKE '%ENGINE_KILLED%';
UPDATE attempts SET verdict = replace(verdict, '"code":"ENGINE_KILLED"', '"code":"ENGINE_CRASHED"') WHERE verdict LIKE '%ENGINE_KILLED%';
UPDATE runs SET error = replace(error, '"code":"ENGINE_NO_RESULT"', '"code":"ENGINE_FAILED"') WHERE error LIKE '%ENGINE_NO_RESULT%';
UPDATE attempts SET evidence = replace(evidence, '"code":"ENGINE_NO_RESULT"', '"code":"ENGINE_FAILED"') WHERE evidence LIKE '%ENGINE_NO_RESULT%';
UPDATE attempts SET verdict = replace(verdict, '"code":"ENGINE_NO_RESULT"', '"code":"ENGINE_FAILED"') WHERE verdict LIKE '%ENGINE_NO_RESULT%';
UPDATE runs SET error = replace(error, '"code":"ENGINE_QUOTA_EXCEEDED"', '"code":"ENGINE_QUOTA_EXHAUSTED"') WHERE error LIKE '%ENGINE_QUOTA_EXCEEDED%';
UPDATE attempts SET evidence = replace(evidence, '"code":"ENGINE_QUOTA_EXCEEDED"', '"code":"ENGINE_QUOTA_EXHAUSTED"') WHERE evidence LIKE '%ENGINE_QUOTA_EXCEEDED%';
UPDATE attempts SET verdict = replace(verdict, '"code":"ENGINE_QUOTA_EXCEEDED"', '"code":"ENGINE_QUOTA_EXHAUSTED"') WHERE verdict LIKE '%ENGINE_QUOTA_EXCEEDED%';
UPDATE runs SET error = replace(error, '"code":"ENGINE_FIRST_BYTE_TIMEOUT"', '"code":"ENGINE_STALLED"') WHERE error LIKE '%ENGINE_FIRST_BYTE_TIMEOUT%';
UPDATE attempts SET evidence = replace(evidence, '"code":"ENGINE_FIRST_BYTE_TIMEOUT"', '"code":"ENGINE_STALLED"') WHERE evidence LIKE '%ENGINE_FIRST_BYTE_TIMEOUT%';
UPDATE attempts SET verdict = replace(verdict, '"code":"ENGINE_FIRST_BYTE_TIMEOUT"', '"code":"ENGINE_STALLED"') WHERE verdict LIKE '%ENGINE_FIRST_BYTE_TIMEOUT%';
UPDATE runs SET error = replace(error, '"code":"ENGINE_IDLE_TIMEOUT"', '"code":"ENGINE_STALLED"') WHERE error LIKE '%ENGINE_IDLE_TIMEOUT%';
UPDATE attempts SET evidence = replace(evidence, '"code":"ENGINE_IDLE_TIMEOUT"', '"code":"ENGINE_STALLED"') WHERE evidence LIKE '%ENGINE_IDLE_TIMEOUT%';
UPDATE attempts SET verdict = replace(verdict, '"code":"ENGINE_IDLE_TIMEOUT"', '"code":"ENGINE_STALLED"') WHERE verdict LIKE '%ENGINE_IDLE_TIMEOUT%';
UPDATE runs SET error = replace(error, '"code":"ENGINE_TURN_TIMEOUT"', '"code":"TURN_TIMEOUT"') WHERE error LIKE '%ENGINE_TURN_TIMEOUT%';
UPDATE attempts SET evidence = replace(evidence, '"code":"ENGINE_TURN_TIMEOUT"', '"code":"TURN_TIMEOUT"') WHERE evidence LIKE '%ENGINE_TURN_TIMEOUT%';
UPDATE attempts SET verdict = replace(verdict, '"code":"ENGINE_TURN_TIMEOUT"', '"code":"TURN_TIMEOUT"') WHERE verdict LIKE '%ENGINE_TURN_TIMEOUT%';
