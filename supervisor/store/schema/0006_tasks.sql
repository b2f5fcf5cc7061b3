-- Work that waits for whoever serves an agent.
CREATE TABLE tasks (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they were dispatched
    id       TEXT NOT NULL UNIQUE,              -- a UUID
    agent    TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    key      TEXT,             -- two tasks of an agent with the same one are one task
    text     TEXT NOT NULL,
    source   TEXT NOT NULL,    -- who dispatched it
    depth    INTEGER NOT NULL, -- how many tasks led to it
    state    TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'done', 'failed', 'expired', 'cancelled')),
    created  INTEGER NOT NULL, -- nanoseconds since 1970, as all times
    until    INTEGER NOT NULL, -- when it expires, while queued; when its lease does, while leased
    attempts INTEGER NOT NULL, -- leases so far
    lease    TEXT NOT NULL,    -- the last one's; empty: none yet
    worker   TEXT NOT NULL,    -- who had it
    leased   INTEGER NOT NULL, -- when it was leased last; 0: never
    ended    INTEGER NOT NULL, -- 0: not yet
    result   TEXT NOT NULL,    -- what it came to, or why it failed
    UNIQUE (agent, key)
) STRICT;
CREATE INDEX tasks_open ON tasks (state, until) WHERE state IN ('queued', 'leased');
CREATE INDEX tasks_agent ON tasks (agent, seq);
