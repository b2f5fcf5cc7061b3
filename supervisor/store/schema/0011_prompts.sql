-- Prompts are in memory only.
DROP TABLE prompts;
