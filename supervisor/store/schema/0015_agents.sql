-- Whether a daemon that was killed was still filling the agent.
ALTER TABLE agents ADD COLUMN unfinished INTEGER NOT NULL DEFAULT 0;
UPDATE agents SET unfinished = 1 WHERE folder LIKE '.unfinished-%';
