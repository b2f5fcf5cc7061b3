package hosttest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Asked is what was asked of rooms so far, in order: "ensure agent-alice".
func (g *Guest) Asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

// Refuse has every question about rooms fail from now on, or none for nil.
func (g *Guest) Refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = err
}

// Mute has the guest answer nothing about itself and its rooms from now on, as one that is
// silent does, or answer again.
func (g *Guest) Mute(silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mute = nil
	if silent {
		g.mute = fault.Newf(fault.Timeout, "call guest", "", "it does not answer").Advise("Wait.")
	}
}

// Fill has the disks of all rooms be full from now on, as commands tell when they end.
func (g *Guest) Fill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = true
}

func (g *Guest) isFull() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.full
}

// RoomConfig returns what a user's room was made with.
func (g *Guest) RoomConfig(user config.LinuxUser) (engine.RoomConfig, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.rooms[user]
	return r, ok
}

// Token is what the programs of a user's room would show to the bridge.
func (g *Guest) Token(user config.LinuxUser) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tokens[user]
}

// When has something be done in the moment in which something is asked of rooms:
// "ensure agent-alice".
func (g *Guest) When(asked string, do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.when = func(what string) {
		if what == asked {
			do()
		}
	}
}

// ask notes a question and does what it asks for, of which a caller who has left hears nothing.
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

// enter is what a command in a room begins with.
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
// a layer or a room.
func (g *Guest) EnsureRoom(ctx context.Context, r engine.RoomConfig, token string) (e engine.Ensured, err error) {
	err = g.ask(ctx, "ensure", string(r.User), func() error {
		if before, ok := g.rooms[r.User]; ok && (before.UID != r.UID || before.Home != r.Home || before.Hostname != r.Hostname) {
			return fault.Newf(fault.Rejected, "make room", string(r.User), "there is one of uid %d at %s", before.UID, before.Home)
		}
		g.rooms[r.User], g.tokens[r.User] = r, token
		if g.backend.disk == nil {
			g.backend.disk = map[config.LinuxUser]string{}
		}
		was, has := g.backend.disk[r.User]
		e = engine.Ensured{Made: true, Anew: has && was != g.backend.Base}
		g.backend.disk[r.User] = g.backend.Base
		return nil
	})
	return e, err
}

// SetRoomLimits implements engine.Engine. A guest that is silent has it wait.
func (g *Guest) SetRoomLimits(ctx context.Context, user config.LinuxUser, l engine.Limits) error {
	err := g.ask(ctx, "limit", string(user), func() error {
		r, ok := g.rooms[user]
		if !ok {
			return noRoom(user)
		}
		r.Limits = l
		g.rooms[user] = r
		return nil
	})
	if g.Ping(ctx) != nil {
		<-ctx.Done()
	}
	return err
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
		// A guest may say what it likes.
		list = append(list, engine.RoomUsage{User: "agent-nobody"})
		return nil
	})
	return list, err
}

func (g *Guest) RoomProcesses(ctx context.Context, user config.LinuxUser) (list []engine.RoomProcess, more bool, err error) {
	err = g.ask(ctx, "processes", string(user), func() error {
		for _, r := range g.rooms {
			if user == "" || user == r.User {
				list = append(list, engine.RoomProcess{User: string(r.User), PID: 100, PPID: 1, Command: "sleep 1000", State: "S", Started: time.Now()})
			}
		}
		return nil
	})
	return list, false, err
}
