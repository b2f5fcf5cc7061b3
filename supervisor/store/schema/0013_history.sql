-- Calls that may have changed an agent's home, with the checkpoints before and after.
CREATE TABLE history (
    agent         TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    call          INTEGER NOT NULL, -- 1, 2, … for each agent
    began         INTEGER NOT NULL, -- nanoseconds since 1970
    ended         INTEGER NOT NULL, -- 0 until the checkpoint after it is made
    tool          TEXT NOT NULL,    -- empty for what changed between calls
    summary       TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    undoes        INTEGER NOT NULL, -- the call that this one undid, or 0
    undone        INTEGER NOT NULL, -- the call that undid this one, or 0
    changed       INTEGER NOT NULL, -- 1 if it changed something, or if that is not known
    counts        TEXT NOT NULL,    -- JSON: numbers of files and lines; null if they are not counted
    before        TEXT NOT NULL,    -- JSON: trees by the names of their roots; null if there are none
    after         TEXT NOT NULL,
    PRIMARY KEY (agent, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_began ON history (began);
