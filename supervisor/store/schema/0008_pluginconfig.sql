-- What plugins remember of themselves, apart for each agent.
CREATE TABLE plugin_config (
    agent  TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    plugin TEXT NOT NULL,
    key    TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (agent, plugin, key)
) STRICT, WITHOUT ROWID;
