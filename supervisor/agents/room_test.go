package agents_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/supervisor/machine"
)

// Concurrent callers share one request for a room. The next boot needs another.
func TestProvision(t *testing.T) {
	w := newWorld(t)
	alice := w.create("alice")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := w.exec("alice"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice"}) {
		t.Errorf("%v", asked)
	}
	room, _ := w.backend.Guest().RoomConfig("agent-alice")
	if !subnet.Rooms().Contains(room.Address) || room != (engine.RoomConfig{User: "agent-alice", UID: alice.UID, Home: "/workspace/agents/alice", Hostname: "alice", Address: room.Address, Limits: engine.Limits{CPUWeight: 100, PIDs: 512}}) {
		t.Errorf("%+v", room)
	}
	w.must(w.machine.Restart(t.Context(), by))
	w.must(w.exec("alice"))
	w.must(w.exec("alice"))
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice"}) {
		t.Errorf("after a restart: %v", asked)
	}
}

func TestSet(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.create("bob")
	w.must(w.exec("alice"))
	changed, err := w.Set(t.Context(), "alice", map[string]string{"limits.memoryMB": "256", "limits.homeMB": "100", "maxCommandsPerTurn": "10"}, by)
	if err != nil || !slices.Equal(changed, []string{"limits.memoryMB", "limits.homeMB"}) {
		t.Errorf("%v %v", changed, err)
	}
	if room, _ := w.backend.Guest().RoomConfig("agent-alice"); room.Limits.Memory != 256<<20 {
		t.Errorf("%+v", room)
	}
	if list := *w.folders.Load(); list[0].MaxBytes != 100<<20 {
		t.Errorf("%+v", list)
	}
	_, err = w.Set(t.Context(), "alice", map[string]string{"network": "none"}, by)
	w.must(err)
	if room, _ := w.backend.Guest().RoomConfig("agent-alice"); room.Address.IsValid() || room.Limits.Memory != 256<<20 {
		t.Errorf("%+v", room)
	}
	_, err = w.Set(t.Context(), "bob", map[string]string{"limits.processes": "100"}, by)
	w.must(err)
	w.must(w.exec("alice"))
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice", "ensure agent-alice", "ensure agent-alice"}) {
		t.Errorf("%v", asked)
	}
	// Set changes all keys or none, and the next daemon reads them.
	_, err = w.Set(t.Context(), "alice", map[string]string{"limits.memoryMB": "512", "limits.processes": "-1"}, by)
	w.want(err, fault.InvalidArgs)
	w.reopen()
	if a, _ := w.Get("alice"); a.Settings.Limits.MemoryMB != 256 || a.Settings.Network != config.NetworkClosed || a.Settings.MaxCommandsPerTurn != 10 || !a.Settings.PluginCreate {
		t.Errorf("%+v", a.Settings)
	}
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	w.must(w.Reset(t.Context(), "alice", by))
	if w.backend.HasLayer("agent-alice") {
		t.Error("the layer is still there")
	}
	w.must(w.exec("alice"))
	w.must(w.machine.Stop(t.Context(), by))
	w.must(w.Reset(t.Context(), "alice", by)) // starts the guest
	if w.backend.HasLayer("agent-alice") {
		t.Error("the layer is still there after a reset of an agent without a room")
	}
}

// A reset is recorded even if the caller has left or the guest does not answer in time:
// the layer may be gone.
func TestResetAndLeave(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	ctx, leave := context.WithCancel(t.Context())
	w.backend.Guest().When("reset agent-alice", leave)
	if err := w.Reset(ctx, "alice", by); err != nil || ctx.Err() == nil || w.journal.count("agent.reset by test") != 1 {
		t.Errorf("%v, %v", err, w.journal.kinds)
	}
	w.backend.Guest().Refuse(fault.Newf(fault.Timeout, "reset room", "", "it does not answer").Advise("Wait."))
	w.want(w.Reset(t.Context(), "alice", by), fault.Timeout)
	w.backend.Guest().Refuse(fault.Newf(fault.Rejected, "reset room", "", "no").Advise("Do not."))
	w.want(w.Reset(t.Context(), "alice", by), fault.Rejected)
	if n := w.journal.count("agent.reset by test"); n != 2 {
		t.Errorf("%d resets are told of, want 2", n)
	}
}

// asked is a context that calls do when a wait on it begins.
type asked struct {
	context.Context
	once *sync.Once
	do   func()
}

func (c asked) Done() <-chan struct{} {
	c.once.Do(c.do)
	return c.Context.Done()
}

// A reset that waits while its agent is deleted does not reset the next agent of that name.
func TestResetOfADeletedAgent(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice")) // the guest runs, so the first wait is for the turn
	var second string
	ctx := asked{t.Context(), new(sync.Once), func() {
		_, err := w.Delete(t.Context(), "alice", true, by)
		w.must(err)
		w.create("alice")
		w.must(w.exec("alice"))
		second = w.backend.Guest().Token("agent-alice")
	}}
	w.want(w.Reset(ctx, "alice", by), fault.NotFound)
	if a, err := w.Get("alice"); err != nil || second == "" || !w.backend.HasLayer("agent-alice") || w.journal.count("agent.reset by test") != 0 {
		t.Errorf("the next alice was reset: %+v %v", a, err)
	} else if _, ok := w.holds(second, a.UID); !ok {
		t.Error("the next alice's token counts no more")
	}
}

// A guest with another base discards layers, which is recorded as a reset.
// After a reset of the whole sandbox there is no layer to discard.
func TestAnotherBase(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	boot := func(base string, resets int) {
		t.Helper()
		w.must(w.machine.Stop(t.Context(), by))
		w.backend.Base = base
		w.must(w.exec("alice"))
		w.must(w.exec("alice"))
		if n := w.journal.count("agent.reset by another base"); n != resets {
			t.Errorf("on %s there were %d resets, want %d", base, n, resets)
		}
	}
	boot("one base", 0)
	boot("one base", 0)
	boot("another", 1)
	boot("another", 1)
	w.must(w.machine.Reset(t.Context(), by))
	boot("a third", 1)
}

func TestUsage(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.create("bob")
	if list, running, err := w.Usage(t.Context(), ""); err != nil || running || list != nil {
		t.Errorf("%v %v %v", list, running, err)
	}
	if state := w.machine.Status().State; state != machine.Stopped {
		t.Errorf("asking made the sandbox %s", state)
	}
	w.must(w.exec("bob"))
	w.must(w.exec("alice"))
	var names []string
	list, running, err := w.Usage(t.Context(), "")
	for _, u := range list {
		names = append(names, string(u.Agent.Name))
	}
	if err != nil || !running || !slices.Equal(names, []string{"alice", "bob"}) {
		t.Errorf("%v %v %v", names, running, err)
	}
	if list, _, err := w.Processes(t.Context(), "bob"); err != nil || len(list) != 1 || list[0].Agent.Name != "bob" {
		t.Errorf("%v %v", list, err)
	}
	_, _, err = w.Usage(t.Context(), "carol")
	w.want(err, fault.NotFound)
}

// Errors of interrupted work name the work, not the program in the room that did it. If the agent was
// deleted, they say so.
func TestBrokenOff(t *testing.T) {
	for name, tc := range map[string]struct {
		harm         func(w *world) error
		kind         fault.Kind
		says, advice string
	}{
		"deleted": {func(w *world) error { _, err := w.Delete(t.Context(), "alice", false, by); return err }, fault.NotFound, "the agent was deleted", "osaurus-sandbox agent list"},
		"reset":   {func(w *world) error { return w.Reset(t.Context(), "alice", by) }, fault.Unavailable, "the room ", " again"},
		"down":    {func(w *world) error { return w.machine.Stop(t.Context(), by) }, fault.Unavailable, "the machine ended", "osaurus-sandbox status"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			server, err := net.Listen("tcp", "127.0.0.1:0") // which answers nothing
			w.must(err)
			defer server.Close()
			port := config.Port(server.Addr().(*net.TCPAddr).Port)
			w.create("alice")
			w.must(w.exec("alice"))
			work := map[string]func(in io.Reader) error{
				"copy to alice:/tmp": func(in io.Reader) error { return w.CopyIn(t.Context(), "alice", "/tmp", "file", in) },
				"connect to port " + port.String() + " of alice": func(in io.Reader) error {
					return w.Connect(t.Context(), "alice", port, in, io.Discard)
				},
				"": func(in io.Reader) error { // a plain command
					p, err := w.Exec(t.Context(), "alice", engine.Command{Args: []string{"cat"}, Stdin: in})
					if err == nil {
						_, err = p.Wait()
					}
					return err
				},
			}
			ends := map[string]chan error{}
			for what, do := range work {
				in, fed := io.Pipe()
				t.Cleanup(func() { fed.Close() })
				end := make(chan error, 1)
				ends[what] = end
				go func() { end <- do(in) }()
				_, err := fed.Write([]byte("x")) // taken when it runs
				w.must(err)
			}
			w.must(tc.harm(w))
			for what, end := range ends {
				err := <-end
				w.want(err, tc.kind)
				if text := err.Error(); !strings.HasPrefix(text, what) || !strings.Contains(text, tc.says) || !strings.Contains(fault.AdviceOf(err), tc.advice) || what != "" && strings.Contains(text, engine.OpRun) {
					t.Errorf("%s: %v (%s)", what, err, fault.AdviceOf(err))
				}
			}
		})
	}
}
