CREATE TABLE events (
    seq    INTEGER PRIMARY KEY,
    time   INTEGER NOT NULL, -- nanoseconds since 1970
    kind   TEXT NOT NULL,
    cause  TEXT NOT NULL,
    fields TEXT NOT NULL     -- a JSON object of strings
) STRICT;

-- One row. No event up to `forgotten` is kept any more, and no number above
-- `reserved` was ever given to an event.
CREATE TABLE event_marks (
    only      INTEGER PRIMARY KEY CHECK (only = 1),
    forgotten INTEGER NOT NULL,
    reserved  INTEGER NOT NULL
) STRICT;
INSERT INTO event_marks VALUES (1, 0, 0);
