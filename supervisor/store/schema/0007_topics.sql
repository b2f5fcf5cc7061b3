-- The tails of what programs of agents have told.
CREATE TABLE topics (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- no number is given twice
    agent   TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    shared  INTEGER NOT NULL,  -- 1: for all agents
    topic   TEXT NOT NULL,
    source  TEXT NOT NULL,
    payload TEXT NOT NULL,     -- JSON
    time    INTEGER NOT NULL   -- nanoseconds since 1970
) STRICT;
CREATE INDEX topics_agent ON topics (agent, seq);
CREATE INDEX topics_shared ON topics (seq) WHERE shared;

-- The last that is not kept any more of an agent's, for itself and for all.
CREATE TABLE topic_marks (
    agent  TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    shared INTEGER NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (agent, shared)
) STRICT, WITHOUT ROWID;
