package agents

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

// after returns the uid to use after another one. It skips those that mean
// nobody (65534, and 65535 for 16-bit programs).
func after(uid uint32) uint32 {
	if uid++; uid == 65534 {
		return 65536
	}
	return uid
}

// registry is the agents' part of the database.
type registry struct{ db *store.DB }

// load reads all agents, and the users of deleted ones that may still have a
// room in the guest.
func (r registry) load(ctx context.Context) (list []Agent, remains []config.LinuxUser, err error) {
	if list, err = store.Select(ctx, r.db, "read agents", scan, "SELECT uid, id, name, user, folder, created, settings, unfinished FROM agents"); err != nil {
		return nil, nil, err
	}
	remains, err = store.Select(ctx, r.db, "read agents", store.Value[config.LinuxUser], "SELECT user FROM agent_remains")
	return list, remains, err
}

func scan(row store.Row) (a Agent, err error) {
	var settings []byte
	if err := row.Scan(&a.UID, &a.ID, &a.Name, &a.User, &a.Folder, store.Time(&a.Created), &settings, &a.Unfinished); err != nil {
		return a, err
	}
	if err := json.Unmarshal(settings, &a.Settings); err != nil {
		return a, fault.New(fault.Execution, "read settings of agent", string(a.Name), err).Advise("A newer osaurus-sandbox may have written them: use that one.")
	}
	return a, nil
}

// add gives a new agent its user and uid and saves it.
func (r registry) add(ctx context.Context, a Agent) (Agent, error) {
	const op = "create agent"
	err := r.db.Write(ctx, op, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT next FROM agent_marks").Scan(&a.UID); err != nil {
			return err
		}
		a.User = a.Name.User()
		var taken bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM agents WHERE user = ?)", a.User).Scan(&taken); err != nil {
			return err
		}
		if taken { // by one that was renamed
			a.User = a.Name.OtherUser(a.ID)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE agent_marks SET next = ?", after(a.UID)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO agents (uid, id, name, user, folder, created, settings, unfinished) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			a.UID, a.ID, a.Name, a.User, a.Folder, a.Created.UnixNano(), store.JSON(a.Settings), a.Unfinished)
		return err
	})
	return a, err
}

// update saves an agent's name and settings.
func (r registry) update(ctx context.Context, op string, a Agent) error {
	_, err := r.db.Exec(ctx, op, "UPDATE agents SET name = ?, settings = ? WHERE uid = ?", a.Name, store.JSON(a.Settings), a.UID)
	return err
}

// finish records that an agent is filled.
func (r registry) finish(ctx context.Context, a Agent) error {
	_, err := r.db.Exec(ctx, "create agent", "UPDATE agents SET unfinished = false WHERE uid = ?", a.UID)
	return err
}

// remove removes an agent and records that it may have a room in the guest.
func (r registry) remove(ctx context.Context, a Agent) error {
	return r.db.Write(ctx, "delete agent", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO agent_remains (user) VALUES (?)", a.User); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM agents WHERE uid = ?", a.UID)
		return err
	})
}

// cleared records that a deleted agent has no room in the guest anymore.
func (r registry) cleared(ctx context.Context, user config.LinuxUser) error {
	_, err := r.db.Exec(ctx, "delete agent", "DELETE FROM agent_remains WHERE user = ?", user)
	return err
}

// Saved is what a snapshot has of the agents of a home.
type Saved struct {
	Agents  []Agent            `json:"agents"`
	Remains []config.LinuxUser `json:"remains,omitempty"` // deleted agents with something on the data disk
}

// Save reads the agents of a home.
func Save(ctx context.Context, db *store.DB) (s Saved, err error) {
	s.Agents, s.Remains, err = registry{db}.load(ctx)
	return s, err
}

// Unchanged calls do with the agents while none is made, renamed, changed or deleted.
func (a *Agents) Unchanged(ctx context.Context, op string, do func(Saved) error) error {
	end, err := a.turn(ctx, everybody, op, "")
	if err != nil {
		return err
	}
	defer end()
	saved, err := Save(ctx, a.DB)
	if err != nil {
		return err
	}
	return do(saved)
}

// Restore makes the agents of a home those that were saved. Other agents are deleted with their memory
// and tasks. No uid is given again. It may be repeated, and comes before Open.
func Restore(ctx context.Context, db *store.DB, saved Saved) error {
	const op = "restore agents"
	text, next := store.JSON(saved), uint32(0)
	for _, a := range saved.Agents {
		next = max(next, after(a.UID))
	}
	return db.Write(ctx, op, func(tx *sql.Tx) error {
		run := func(query string, args ...any) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		}
		return errors.Join(
			run("DELETE FROM agents WHERE uid NOT IN (SELECT value->>'uid' FROM json_each(?, '$.agents'))", text),
			run("UPDATE agents SET name = '~' || uid, user = '~' || uid, folder = '~' || uid"), // names may have gone from one agent to another
			run(`INSERT INTO agents (uid, id, name, user, folder, created, settings, unfinished)
				SELECT value->>'uid', value->>'id', value->>'name', value->>'user', value->>'folder', unixepoch(value->>'created') * 1000000000, value->>'settings',
				coalesce(value->>'unfinished', false)
				FROM json_each(?, '$.agents') WHERE true
				ON CONFLICT (uid) DO UPDATE SET name = excluded.name, user = excluded.user, folder = excluded.folder, settings = excluded.settings, unfinished = excluded.unfinished`, text),
			run("UPDATE agent_marks SET next = max(next, ?)", next),
			run("DELETE FROM agent_remains"),
			run("INSERT INTO agent_remains (user) SELECT value FROM json_each(?, '$.remains')", text),
		)
	})
}
