-- The schema of a home's database. Times are nanoseconds since 1970.

CREATE TABLE events (
    seq    INTEGER PRIMARY KEY,
    time   INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    cause  TEXT NOT NULL,
    fields TEXT NOT NULL     -- a JSON object of strings
) STRICT;

-- One row: all events up to `forgotten` were deleted.
CREATE TABLE event_marks (
    only      INTEGER PRIMARY KEY CHECK (only = 1),
    forgotten INTEGER NOT NULL
) STRICT;
INSERT INTO event_marks VALUES (1, 0);

CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    time    INTEGER NOT NULL,
    uid     INTEGER NOT NULL,
    agent   TEXT NOT NULL,
    client  TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail  TEXT NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE INDEX audit_time ON audit (time);
CREATE INDEX audit_agent ON audit (agent, seq);

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is never changed'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is never deleted'); END;

-- INSERT OR REPLACE would delete without asking the trigger above.
CREATE TRIGGER audit_only_grows BEFORE INSERT ON audit
WHEN NEW.seq <= (SELECT seq FROM audit_head)
BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END;

-- One row: the last entry of the audit, so that a missing tail is noticed.
CREATE TABLE audit_head (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO audit_head VALUES (1, 0, zeroblob(32));

CREATE TABLE agents (
    uid        INTEGER PRIMARY KEY, -- in the guest
    id         TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    user       TEXT NOT NULL UNIQUE,
    folder     TEXT NOT NULL UNIQUE, -- of its home, in the workspace
    created    INTEGER NOT NULL,
    settings   TEXT NOT NULL,        -- a JSON object
    unfinished INTEGER NOT NULL DEFAULT 0 -- 1: a daemon was still filling the agent
) STRICT;

-- One row. Every uid from 20000, which is above what distributions give to
-- services and people, and below `next` has been assigned.
CREATE TABLE agent_marks (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    next INTEGER NOT NULL
) STRICT;
INSERT INTO agent_marks VALUES (1, 20000);

-- The users of deleted agents that may still have something in the guest.
CREATE TABLE agent_remains (user TEXT PRIMARY KEY) STRICT;

-- The ends of what was typed and shown in the sessions of agents.
CREATE TABLE transcripts (
    uid     INTEGER NOT NULL REFERENCES agents (uid) ON DELETE CASCADE,
    session TEXT NOT NULL,
    used    INTEGER NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (uid, session)
) STRICT, WITHOUT ROWID;

-- The agents' memory.
CREATE TABLE facts (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    agent    TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    content  TEXT NOT NULL,
    salience REAL NOT NULL,    -- how much it matters, 0 to 1
    source   TEXT NOT NULL,    -- who told it
    pinned   INTEGER NOT NULL, -- 1: it is never forgotten to make room
    created  INTEGER NOT NULL,
    UNIQUE (agent, content)
) STRICT;

-- The words of facts, by their ids. The owner is one word too, so that nobody
-- walks through what others have in mind.
CREATE VIRTUAL TABLE fact_words USING fts5 (
    owner, content, content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER fact_words_go AFTER DELETE ON facts
BEGIN DELETE FROM fact_words WHERE rowid = OLD.id; END;

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
    created  INTEGER NOT NULL,
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

-- Recent events of agents' programs.
CREATE TABLE topics (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- no number is given twice
    agent   TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    shared  INTEGER NOT NULL,  -- 1: for all agents
    topic   TEXT NOT NULL,
    source  TEXT NOT NULL,
    payload TEXT NOT NULL,     -- JSON
    time    INTEGER NOT NULL
) STRICT;
CREATE INDEX topics_agent ON topics (agent, seq);
CREATE INDEX topics_shared ON topics (seq) WHERE shared;

-- The number of the last deleted event, of each agent and of all.
CREATE TABLE topic_marks (
    agent  TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    shared INTEGER NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (agent, shared)
) STRICT, WITHOUT ROWID;

-- The plugins' own configuration, per agent.
CREATE TABLE plugin_config (
    agent  TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    plugin TEXT NOT NULL,
    key    TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (agent, plugin, key)
) STRICT, WITHOUT ROWID;

-- What agents have handed over to people. It is the people's: it stays when the
-- agent goes. The files are in the home, in a folder for each session.
CREATE TABLE artifacts (
    id          INTEGER PRIMARY KEY AUTOINCREMENT, -- never another's
    agent       TEXT NOT NULL, -- its id
    agent_name  TEXT NOT NULL, -- of the agent, when it was handed over
    session     TEXT NOT NULL,
    name        TEXT NOT NULL, -- in the folder of the session
    description TEXT NOT NULL,
    folder      INTEGER NOT NULL, -- 1 if it is one
    type        TEXT NOT NULL,
    files       INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    created     INTEGER NOT NULL,
    UNIQUE (session, name)
) STRICT;
CREATE INDEX artifacts_agent ON artifacts (agent);

-- The hosts to which secrets are bound. Secrets stay when their agent goes, and so do
-- these rows. Values are in the secret store, never here.
CREATE TABLE secret_bindings (
    agent       TEXT NOT NULL,
    plugin      TEXT NOT NULL, -- empty for the agent's own secrets
    name        TEXT NOT NULL,
    hosts       TEXT NOT NULL, -- separated by spaces
    place       TEXT NOT NULL, -- header, query, basic
    key         TEXT NOT NULL,
    require     INTEGER NOT NULL,
    placeholder TEXT NOT NULL UNIQUE,
    PRIMARY KEY (agent, plugin, name)
) STRICT, WITHOUT ROWID;

-- Calls that may have changed an agent's home, with the checkpoints before and after.
CREATE TABLE history (
    agent         TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    call          INTEGER NOT NULL, -- 1, 2, … for each agent
    began         INTEGER NOT NULL,
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

-- Folders of this computer in agents' rooms. Rows without keep are those of the daemon that runs, or of
-- one that was killed.
CREATE TABLE mounts (
    agent      TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    folder     TEXT NOT NULL,
    at         TEXT NOT NULL, -- in the room
    mode       TEXT NOT NULL,
    made       INTEGER NOT NULL,
    until      INTEGER NOT NULL, -- 0: without end
    keep       INTEGER NOT NULL,
    ask        INTEGER NOT NULL,
    everything INTEGER NOT NULL, -- it may be the person's home folder
    PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;
