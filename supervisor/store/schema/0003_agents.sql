CREATE TABLE agents (
    uid      INTEGER PRIMARY KEY, -- in the guest
    id       TEXT NOT NULL UNIQUE,
    name     TEXT NOT NULL UNIQUE,
    user     TEXT NOT NULL UNIQUE,
    folder   TEXT NOT NULL UNIQUE, -- of its home, in the workspace
    created  INTEGER NOT NULL,     -- nanoseconds since 1970
    settings TEXT NOT NULL         -- a JSON object
) STRICT;

-- One row. Every uid from 20000, which is above what distributions give to
-- services and people, up to and without `next` was given once.
CREATE TABLE agent_marks (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    next INTEGER NOT NULL
) STRICT;
INSERT INTO agent_marks VALUES (1, 20000);

-- The users of deleted agents that may still have something in the guest.
CREATE TABLE agent_remains (user TEXT PRIMARY KEY) STRICT;
