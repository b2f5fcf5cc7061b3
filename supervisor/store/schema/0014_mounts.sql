-- Folders of this computer in agents' rooms. Rows without keep are those of the daemon that runs, or of
-- one that was killed.
CREATE TABLE mounts (
    agent      TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    folder     TEXT NOT NULL,
    at         TEXT NOT NULL, -- in the room
    mode       TEXT NOT NULL,
    made       INTEGER NOT NULL, -- nanoseconds since 1970
    until      INTEGER NOT NULL, -- 0: without end
    keep       INTEGER NOT NULL,
    ask        INTEGER NOT NULL,
    everything INTEGER NOT NULL, -- it may be the person's home folder
    PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;
