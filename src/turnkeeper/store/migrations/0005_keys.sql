-- Who may come in. The secrets themselves are nowhere: only what they are compared with.
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    scopes TEXT NOT NULL,
    skills TEXT,
    engines TEXT,
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    revoked_by TEXT,
    last_used_at TEXT
);

-- What was changed beside runs, and by whom. Nothing is ever taken out of it.
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    by TEXT NOT NULL,
    what TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);

-- Who made a run, and who brought its files; nobody knows it of those that are here already.
ALTER TABLE runs ADD COLUMN created_by TEXT;
ALTER TABLE runs ADD COLUMN uploaded_by TEXT;
