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
    created     INTEGER NOT NULL, -- nanoseconds since 1970
    UNIQUE (session, name)
) STRICT;
CREATE INDEX artifacts_agent ON artifacts (agent);
