-- Where the uploaded files of a run are: known only after the job was accepted, so not part of it.
ALTER TABLE runs ADD COLUMN files TEXT;
