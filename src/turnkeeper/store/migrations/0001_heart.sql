-- One row per run: what is guarded, filtered or sorted by has a column; the rest is JSON beside it.
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    version INTEGER NOT NULL,
    lease TEXT,
    last_seq INTEGER NOT NULL,
    skill_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    mode TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt_number INTEGER NOT NULL,
    try_number INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    next_turn TEXT NOT NULL,
    handle_id TEXT,
    handle_loadable INTEGER,
    held TEXT,
    ending TEXT,
    questions INTEGER NOT NULL,
    pending_interaction_id INTEGER,
    due_at TEXT,
    recovery_trigger TEXT,
    recovery_at TEXT,
    warnings TEXT,
    error TEXT,
    result TEXT,
    candidate_result TEXT,
    usage TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT
) WITHOUT ROWID;
CREATE INDEX runs_by_age ON runs (created_at, id);
CREATE INDEX runs_by_state ON runs (state, created_at, id);
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE attempts (
    run_id TEXT NOT NULL,
    attempt_number INTEGER NOT NULL,
    try_number INTEGER NOT NULL,
    next_turn TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    pid INTEGER,
    pid_start INTEGER,
    evidence TEXT,
    verdict TEXT,
    PRIMARY KEY (run_id, attempt_number, try_number)
) WITHOUT ROWID;

CREATE TABLE interactions (
    run_id TEXT NOT NULL,
    interaction_id INTEGER NOT NULL,
    attempt_number INTEGER NOT NULL,
    question TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    expires_at TEXT,
    answer TEXT,
    PRIMARY KEY (run_id, interaction_id)
) WITHOUT ROWID;

CREATE TABLE events (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;

CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
