-- The ends of what was typed and shown in the sessions of agents.
CREATE TABLE transcripts (
    uid     INTEGER NOT NULL REFERENCES agents (uid) ON DELETE CASCADE,
    session TEXT NOT NULL,
    used    INTEGER NOT NULL, -- nanoseconds since 1970
    text    TEXT NOT NULL,
    PRIMARY KEY (uid, session)
) STRICT, WITHOUT ROWID;
