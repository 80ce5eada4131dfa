-- How long a run has been in its state: who cleans up begins with the oldest.
CREATE INDEX runs_at_rest ON runs (state, updated_at, id);
-- Few runs hold a slot while they wait; to find them among all that wait took a third of a second.
CREATE INDEX runs_holding ON runs (updated_at, id) WHERE state = 'waiting_user' AND lease IS NOT NULL;
CREATE INDEX idempotency_by_run ON idempotency (run_id);

-- Runs that are gone, and whose folder and last events have still to go: written with their deletion.
CREATE TABLE removals (
    run_id TEXT PRIMARY KEY
) WITHOUT ROWID;
