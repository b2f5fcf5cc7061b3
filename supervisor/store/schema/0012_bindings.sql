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
