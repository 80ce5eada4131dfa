-- With a rowid: what an attempt was started with is more than a kilobyte, of which a table without would put all but the
-- beginning on a page of its own, and leave most of that empty.
CREATE TABLE roomy (
    run_id TEXT NOT NULL,
    attempt_number INTEGER NOT NULL,
    try_number INTEGER NOT NULL,
    next_turn TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    pid INTEGER,
    pid_start INTEGER,
    launch TEXT,
    model TEXT,
    usage TEXT,
    evidence TEXT,
    verdict TEXT,
    PRIMARY KEY (run_id, attempt_number, try_number)
);
INSERT INTO roomy
    SELECT run_id, attempt_number, try_number, next_turn, started_at, ended_at, pid, pid_start, launch, model, usage,
        evidence, verdict
    FROM attempts ORDER BY run_id, attempt_number, try_number;
DROP TABLE attempts;
ALTER TABLE roomy RENAME TO attempts;

-- Few runs are told to end and have not; to find them at a start among all that wait took a tenth of a second.
CREATE INDEX runs_ending ON runs (state, id) WHERE ending IS NOT NULL;
