-- What people are and were asked for. What they answer is never in here.
CREATE TABLE prompts (
    id       TEXT NOT NULL PRIMARY KEY,
    agent    TEXT NOT NULL, -- its id
    name     TEXT NOT NULL, -- of the agent, when it was asked
    kind     TEXT NOT NULL,
    plugin   TEXT NOT NULL,
    secret   TEXT NOT NULL, -- what it is called
    text     TEXT NOT NULL,
    asked    INTEGER NOT NULL, -- nanoseconds since 1970
    deadline INTEGER NOT NULL,
    state    TEXT NOT NULL,
    ended    INTEGER NOT NULL, -- 0 while it waits
    cause    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
