-- What a turn can be played again with by hand, and what it cost.
ALTER TABLE attempts ADD COLUMN launch TEXT;
ALTER TABLE attempts ADD COLUMN model TEXT;
ALTER TABLE attempts ADD COLUMN usage TEXT;
