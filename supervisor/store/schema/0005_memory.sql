-- What agents keep in mind.
CREATE TABLE facts (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    agent    TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    content  TEXT NOT NULL,
    salience REAL NOT NULL,    -- how much it matters, 0 to 1
    source   TEXT NOT NULL,    -- who told it
    pinned   INTEGER NOT NULL, -- 1: it is never forgotten to make room
    created  INTEGER NOT NULL, -- nanoseconds since 1970
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
