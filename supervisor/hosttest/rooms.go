package hosttest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Asked returns the requests about rooms so far: "ensure agent-alice".
func (g *Guest) Asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

// Refuse makes requests about rooms fail with err. Nil ends that.
func (g *Guest) Refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = err
}

// Mute makes the guest silent, or answer again.
func (g *Guest) Mute(silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mute = nil
	if silent {
		g.mute = fault.Newf(fault.Timeout, "call guest", "", "it does not answer").Advise("Wait.")
	}
}

// RoomConfig returns the configuration of a user's room.
func (g *Guest) RoomConfig(user config.LinuxUser) (engine.RoomConfig, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.rooms[user]
	return r, ok
}

// Token returns the bridge token of a user's room.
func (g *Guest) Token(user config.LinuxUser) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tokens[user]
}

// When calls do during a request about a room: "ensure agent-alice".
func (g *Guest) When(asked string, do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.when = func(what string) {
		if what == asked {
			do()
		}
	}
}

// ask records a request and performs it, even if ctx has ended.
func (g *Guest) ask(ctx context.Context, what string, user string, do func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, what+" "+user)
	if g.when != nil {
		g.when(what + " " + user)
	}
	if err := cmp.Or(g.mute, g.refuse); err != nil {
		return err
	}
	g.backend.mu.Lock()
	defer g.backend.mu.Unlock()
	return cmp.Or(do(), ctx.Err())
}

// enter fails unless the user has a room.
func (g *Guest) enter(user config.LinuxUser) error {
	if _, ok := g.RoomConfig(user); user != "" && !ok {
		return noRoom(user)
	}
	return nil
}

func noRoom(user config.LinuxUser) error {
	return fault.Newf(fault.NotFound, "find room", string(user), "there is none")
}

// EnsureRoom implements engine.Engine. A user has one uid as long as it has
// a layer or a room. A change of a room hangs while the guest is silent.
func (g *Guest) EnsureRoom(ctx context.Context, r engine.RoomConfig, token string) (e engine.Ensured, err error) {
	err = g.ask(ctx, "ensure", string(r.User), func() error {
		if before, ok := g.rooms[r.User]; ok && (before.UID != r.UID || before.Home != r.Home || before.Hostname != r.Hostname) {
			return fault.Newf(fault.Rejected, "make room", string(r.User), "there is one of uid %d at %s", before.UID, before.Home)
		}
		g.rooms[r.User], g.tokens[r.User] = r, token
		if g.ended[r.User] == nil {
			g.ended[r.User] = make(chan struct{})
		}
		if g.backend.disk == nil {
			g.backend.disk = map[config.LinuxUser]string{}
		}
		was, has := g.backend.disk[r.User]
		e = engine.Ensured{Made: true, Anew: has && was != g.backend.Base}
		g.backend.disk[r.User] = g.backend.Base
		return nil
	})
	if _, changed := g.RoomConfig(r.User); changed && g.Ping(ctx) != nil {
		<-ctx.Done()
	}
	return e, err
}

func (g *Guest) ResetRoom(ctx context.Context, user config.LinuxUser) error {
	return g.ask(ctx, "reset", string(user), func() error {
		g.endRoom(user)
		delete(g.backend.disk, user)
		return nil
	})
}

func (g *Guest) RemoveRoom(ctx context.Context, user config.LinuxUser, layer bool) error {
	return g.ask(ctx, "remove", string(user), func() error {
		g.endRoom(user)
		if layer {
			delete(g.backend.disk, user)
		}
		return nil
	})
}

func (g *Guest) RoomUsages(ctx context.Context, user config.LinuxUser) (list []engine.RoomUsage, err error) {
	err = g.ask(ctx, "usage", string(user), func() error {
		for _, r := range g.rooms {
			if user == "" || user == r.User {
				list = append(list, engine.RoomUsage{User: string(r.User), CPU: time.Second, Memory: 1 << 20, PIDs: 1, Limits: r.Limits, Made: time.Now()})
			}
		}
		if _, ok := g.rooms[user]; user != "" && !ok {
			return noRoom(user)
		}
		// A guest may report anything.
		list = append(list, engine.RoomUsage{User: "agent-nobody"})
		return nil
	})
	return list, err
}

// openIn returns what is open in a folder.
func (b *Backend) openIn(folder string) (list []string) {
	for _, path := range b.Opened {
		if folder != "" && strings.HasPrefix(path, folder) {
			list = append(list, path)
		}
	}
	return list
}

func (g *Guest) RoomProcesses(ctx context.Context, user config.LinuxUser, folder string) (list []engine.RoomProcess, more bool, err error) {
	err = g.ask(ctx, "processes", string(user), func() error {
		for _, r := range g.rooms {
			if user == "" || user == r.User {
				list = append(list, engine.RoomProcess{User: string(r.User), PID: 100, PPID: 1, Command: "sleep 1000", State: "S", Started: time.Now(), Open: g.backend.openIn(folder)})
			}
		}
		return nil
	})
	return list, false, err
}
