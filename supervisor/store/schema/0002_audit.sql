CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    time    INTEGER NOT NULL, -- nanoseconds since 1970
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
