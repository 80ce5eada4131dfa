-- What the last turn of a run was played in: without it nobody could tell later which runs had no walls.
ALTER TABLE runs ADD COLUMN sandbox TEXT;
