package hosttest

import (
	"context"
	"io"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

var _ engine.Snapshots = (*Guest)(nil)

// ChangeSnapshot implements engine.Snapshots. Rooms of this guest have no files, so nothing changes.
func (g *Guest) ChangeSnapshot(ctx context.Context, user config.LinuxUser, action engine.SnapshotAction, name config.SnapshotName, _ bool) (made string, err error) {
	err = g.ask(ctx, string(action)+" snapshot of", string(user), func() error {
		n := slices.IndexFunc(g.snapshots[user], func(s engine.Snapshot) bool { return s.Name == string(name) })
		switch {
		case action != engine.CreateSnapshot && n < 0:
			return fault.Newf(fault.NotFound, "find snapshot", string(name), "there is none").Advise("List them.")
		case action == engine.DeleteSnapshot:
			g.snapshots[user] = slices.Delete(g.snapshots[user], n, n+1)
		case action == engine.RestoreSnapshot:
		case n >= 0:
			return fault.Newf(fault.Rejected, "make snapshot", string(name), "there is one").Advise("Choose another name.")
		default:
			if g.snapshots == nil {
				g.snapshots = map[config.LinuxUser][]engine.Snapshot{}
			}
			made = string(name)
			g.snapshots[user] = append(g.snapshots[user], engine.Snapshot{Name: made})
		}
		return nil
	})
	return made, err
}

// ListSnapshots implements engine.Snapshots.
func (g *Guest) ListSnapshots(ctx context.Context, user config.LinuxUser) (list []engine.Snapshot, err error) {
	err = g.ask(ctx, "list snapshots of", string(user), func() error {
		list = slices.Clone(g.snapshots[user])
		return nil
	})
	return list, err
}

// DiffSnapshot implements engine.Snapshots with changes that are none.
func (g *Guest) DiffSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) ([]string, error) {
	_, err := g.ChangeSnapshot(ctx, user, engine.RestoreSnapshot, name, false)
	return []string{"+ /opt/tool/", "~ /etc/a\nb"}, err
}

// ForkRoom implements engine.Snapshots.
func (g *Guest) ForkRoom(ctx context.Context, user, to config.LinuxUser, _ uint32, _ bool) error {
	return g.ask(ctx, "fork "+string(user)+" to", string(to), func() error {
		if _, has := g.backend.disk[to]; has {
			return fault.Newf(fault.Rejected, "fork room", string(to), "it has one").Advise("Choose another name.")
		}
		g.backend.disk[to] = g.backend.disk[user]
		return nil
	})
}

// ExportRoom implements engine.Snapshots.
func (g *Guest) ExportRoom(ctx context.Context, user config.LinuxUser, to io.Writer) error {
	return g.ask(ctx, "export", string(user), func() error {
		_, err := io.WriteString(to, "room of "+string(user))
		return err
	})
}

// ImportRoom implements engine.Snapshots.
func (g *Guest) ImportRoom(ctx context.Context, r engine.RoomConfig, from io.Reader) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return fault.New(fault.Rejected, "import room", string(r.User), err)
	}
	return g.ask(ctx, "import "+string(text)+" to", string(r.User), func() error {
		if g.backend.disk == nil {
			g.backend.disk = map[config.LinuxUser]string{}
		}
		g.backend.disk[r.User] = g.backend.Base
		return nil
	})
}
