package life

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/plugins"
)

func watcher() plugins.Recipe {
	return plugins.Recipe{
		Name: "rss", Secrets: []config.SecretName{"TOKEN"}, Daemon: &plugins.Daemon{Command: "./watch", Env: map[string]string{"B": "2", "A": "1"}},
	}
}

// A daemon is restarted five times in five minutes. Then it has failed until its plugin is begun
// again.
func TestDaemonRestarts(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "rss", watcher())
		timetest.Wait()
		if w.starts() != 1 {
			t.Fatalf("%d daemons", w.starts())
		}
		got := w.started[0]
		if got.Plugin != "rss" || got.Network != engine.NoNetwork || got.Dir != "/workspace/agents/alice/plugins/rss" || !has(got.Env, "OSAURUS_PLUGIN=rss", "A=1", "B=2", "TOKEN=value") {
			t.Errorf("it runs as %+v", got)
		}
		for range maxRestarts {
			w.crash(3)
			time.Sleep(2 * restartPause)
			timetest.Wait()
		}
		if w.starts() != 1+maxRestarts || w.live() != 1 || len(w.failed) != 0 {
			t.Fatalf("%d starts, %d live, %v", w.starts(), w.live(), w.failed)
		}
		w.crash(3)
		time.Sleep(time.Hour)
		timetest.Wait()
		if w.starts() != 1+maxRestarts || len(w.failed) != 1 {
			t.Fatalf("%d starts, %v", w.starts(), w.failed)
		}
		if told := w.failed[0]; !strings.HasPrefix(told, "rss of alice: ") || !strings.Contains(told, "status 3") || !strings.Contains(told, "last words") {
			t.Errorf("reported as %s", told)
		}
		if !strings.Contains(w.log(), "alice/rss error the daemon is not started again") {
			t.Errorf("the log has %s", w.log())
		}
		w.Begin(alice, "rss", watcher())
		timetest.Wait()
		if w.live() != 1 {
			t.Error("not started again")
		}
	})
}

func has(env []string, variables ...string) bool {
	return !slices.ContainsFunc(variables, func(v string) bool { return !slices.Contains(env, v) })
}

// A daemon that ends rarely is always restarted.
func TestDaemonThatEndsNowAndThen(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "rss", watcher())
		const often = 20
		for range often {
			timetest.Wait()
			w.crash(0)
			time.Sleep(restartPeriod / maxRestarts)
		}
		timetest.Wait()
		if w.starts() != often+1 || len(w.failed) != 0 {
			t.Errorf("%d starts, %v", w.starts(), w.failed)
		}
	})
}

// A daemon ends with its guest and runs in the next. It starts no guest.
func TestDaemonAndGuests(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "rss", watcher())
		timetest.Wait()
		for boot := 1; boot <= 10; boot++ {
			w.Begin(alice, "rss", watcher()) // no effect
			w.stop()
			time.Sleep(time.Hour)
			timetest.Wait()
			if w.starts() != boot || w.live() != 0 {
				t.Fatalf("%d starts with %d guests", w.starts(), boot)
			}
			w.boot()
			w.Begin(alice, "rss", watcher())
			timetest.Wait()
			if w.starts() != boot+1 || w.live() != 1 {
				t.Fatalf("%d starts, %d live in guest %d", w.starts(), w.live(), boot+1)
			}
		}
		if len(w.failed) != 0 {
			t.Errorf("%v", w.failed)
		}
	})
}

// A daemon that cannot start for the time being is retried. The reason is logged once.
func TestDaemonThatCannotRunYet(t *testing.T) {
	for kind, why := range map[fault.Kind]string{fault.Unavailable: "the keyring is locked", fault.Rejected: "64 jobs are running"} {
		try(t, func(t *testing.T, w *world) {
			w.fails(fault.Newf(kind, "start", "", "%s", why))
			w.Begin(alice, "rss", watcher())
			time.Sleep(time.Hour)
			timetest.Wait()
			if n := strings.Count(w.log(), why); n != 1 {
				t.Errorf("logged %d times: %s", n, w.log())
			}
			w.fails(nil)
			time.Sleep(askSeldom)
			timetest.Wait()
			if w.live() != 1 || len(w.failed) != 0 {
				t.Errorf("%s: %d live, %v", why, w.live(), w.failed)
			}
		})
	}
}

// A daemon in a guest that is silent for a while is not started twice, and is restarted later.
func TestDaemonInASilentGuest(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Unavailable, fault.Timeout} {
		try(t, func(t *testing.T, w *world) {
			w.Begin(alice, "rss", watcher())
			timetest.Wait()
			w.fails(fault.Newf(kind, "wait", "", "the guest does not answer"))
			time.Sleep(2 * engine.MaxJobWait)
			w.fails(nil)
			time.Sleep(2 * engine.MaxJobWait)
			timetest.Wait()
			if w.starts() != 1 || w.live() != 1 {
				t.Errorf("%s: %d starts, %d live", kind, w.starts(), w.live())
			}
			w.crash(1)
			time.Sleep(2 * restartPause)
			timetest.Wait()
			if w.starts() != 2 || w.live() != 1 {
				t.Errorf("%s: after its end: %d starts, %d live", kind, w.starts(), w.live())
			}
		})
	}
}

// A daemon that was started late, after a timeout, is ended before another starts.
func TestDaemonThatIsStartedLate(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.late = true
		w.Begin(alice, "rss", watcher())
		w.Begin(alice, "other", watcher())
		timetest.Wait()
		w.mu.Lock()
		w.late, w.deaf = false, true
		w.mu.Unlock()
		time.Sleep(askSeldom)
		timetest.Wait()
		if w.live() != 2 || w.starts() != 2 {
			t.Errorf("the first does not end: %d live, %d starts", w.live(), w.starts())
		}
		w.mu.Lock()
		w.deaf = false
		w.mu.Unlock()
		time.Sleep(2 * askSeldom)
		timetest.Wait()
		if w.live() != 2 || w.starts() != 4 || len(w.failed) != 0 {
			t.Errorf("%d live, %d starts, %v", w.live(), w.starts(), w.failed)
		}
	})
}

// Close does not wait for a silent guest.
func TestEndWithASilentGuest(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "rss", watcher())
		timetest.Wait()
		w.mu.Lock()
		w.silent = true
		w.mu.Unlock()
		w.Close()
		if w.kills != 0 {
			t.Errorf("%d kills", w.kills)
		}
	})
}

// A daemon without a folder fails as one that ends too often.
func TestDaemonWithoutAFolder(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.fails(fault.Newf(fault.NotFound, "start job", "", "no such folder"))
		w.Begin(alice, "rss", watcher())
		time.Sleep(time.Hour)
		timetest.Wait()
		if len(w.failed) != 1 || !strings.Contains(w.failed[0], "no such folder") {
			t.Errorf("%v", w.failed)
		}
	})
}

// A daemon whose room was ended is started when its plugin is begun, or after a pause.
func TestDaemonAndItsRoom(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "rss", watcher())
		timetest.Wait()
		w.endRoom()
		time.Sleep(askSeldom - time.Second)
		timetest.Wait()
		if w.live() != 0 {
			t.Error("started before the pause")
		}
		w.Begin(alice, "rss", watcher())
		timetest.Wait()
		if w.live() != 1 {
			t.Error("not started by Begin")
		}
		w.endRoom()
		time.Sleep(askSeldom + time.Second)
		timetest.Wait()
		if w.live() != 1 || w.starts() != 3 {
			t.Errorf("after the pause: %d live, %d starts", w.live(), w.starts())
		}
	})
}

// End ends the daemon, with SIGKILL if necessary.
func TestEnd(t *testing.T) {
	for _, command := range []string{"./watch", "trap '' TERM; ./watch"} {
		try(t, func(t *testing.T, w *world) {
			r := watcher()
			r.Daemon.Command = command
			w.Begin(alice, "rss", r)
			w.Begin(alice, "other", r)
			timetest.Wait()
			if w.live() != 2 {
				t.Fatalf("%d live", w.live())
			}
			for range 2 { // the second has no effect
				if err := w.End(t.Context(), alice.ID, "rss"); err != nil || w.live() != 1 {
					t.Errorf("%v, %d live", err, w.live())
				}
			}
			w.crash(1)
			time.Sleep(time.Minute)
			timetest.Wait()
			if w.starts() != 3 {
				t.Errorf("%d starts", w.starts())
			}
		})
	}
}

func listener(run string) plugins.Recipe {
	return plugins.Recipe{Name: "mail", Permissions: plugins.Permissions{Network: plugins.NetworkOutbound}, Events: plugins.Events{Subscribe: []plugins.Subscription{
		{Topic: "mail.*", Run: run}, {Topic: "mail.new", Run: "second"}, {Topic: "silent"},
	}}}
}

// Handlers run one at a time and in order, with the payload as standard input. They get no earlier
// events.
func TestHandlers(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.emit("mail.new", `"before"`)
		w.hold = 10 * time.Second
		w.Begin(alice, "mail", listener("first"))
		timetest.Wait()
		for i := range 3 {
			w.emit("mail.old", fmt.Sprintf(`{"n":%d}`, i))
		}
		w.emit("silent", `1`)
		w.emit("mail.new", `"last"`)
		timetest.Wait()
		if got := w.handled(); len(got) != 1 {
			t.Fatalf("%d at a time: %q", len(got), got)
		}
		time.Sleep(time.Minute)
		timetest.Wait()
		got := w.handled()
		var want []string
		for i := range 3 {
			want = append(want, fmt.Sprintf(`first {"n":%d} OSAURUS_EVENT_TYPE=mail.old OSAURUS_EVENT_SOURCE=sandbox:agent-alice OSAURUS_EVENT_SEQ=%d`, i, i+2))
		}
		want = append(want, `first "last" OSAURUS_EVENT_TYPE=mail.new`, `second "last" OSAURUS_EVENT_TYPE=mail.new`)
		if len(got) != len(want) {
			t.Fatalf("%q", got)
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
		if err := w.End(t.Context(), alice.ID, "mail"); err != nil {
			t.Error(err)
		}
		w.emit("mail.new", `"after"`)
		time.Sleep(time.Minute)
		timetest.Wait()
		if len(w.handled()) != len(want) {
			t.Error("an event was handled after End")
		}
	})
}

// A failed handler is logged, and the next event is handled.
func TestHandlersThatFail(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "mail", listener("first"))
		timetest.Wait()
		w.exit = engine.Exit{Code: 7}
		w.emit("mail.old", `1`)
		timetest.Wait()
		w.exit, w.hold = engine.Exit{}, time.Hour
		w.emit("mail.old", `2`)
		time.Sleep(plugins.DefaultTimeout)
		timetest.Wait()
		w.hold = 0
		w.emit("mail.old", `3`)
		timetest.Wait()
		if got := w.handled(); len(got) != 3 {
			t.Errorf("%q", got)
		}
		for _, want := range []string{"alice/mail error the handler of mail.old: it ended with status 7 and wrote it hurts", "it did not finish within 30s"} {
			if !strings.Contains(w.log(), want) {
				t.Errorf("the log has %s, not %s", w.log(), want)
			}
		}
	})
}

// Events wait for a guest.
func TestHandlersWaitForAGuest(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "mail", listener("first"))
		timetest.Wait()
		w.stop()
		w.emit("mail.old", `1`)
		time.Sleep(time.Hour)
		timetest.Wait()
		if got := w.handled(); len(got) != 0 {
			t.Fatalf("%q without a guest", got)
		}
		w.boot()
		w.Begin(alice, "mail", listener("first"))
		timetest.Wait()
		if got := w.handled(); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

// Events wait for a silent guest, in order, and the reason is logged once. A handler that cannot run does
// not block the next.
func TestHandlersInASilentGuest(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "mail", listener("first"))
		timetest.Wait()
		w.fails(fault.Newf(fault.Unavailable, "find guest", "", "it does not answer"))
		w.emit("mail.old", `1`)
		w.emit("mail.old", `2`)
		time.Sleep(time.Hour)
		timetest.Wait()
		if n := strings.Count(w.log(), "it does not answer"); n != 1 || len(w.handled()) != 0 {
			t.Errorf("%q; the log has %s", w.handled(), w.log())
		}
		w.fails(nil)
		time.Sleep(askSeldom)
		timetest.Wait()
		if got := w.handled(); len(got) != 2 || !strings.HasPrefix(got[0], "first 1") || !strings.HasPrefix(got[1], "first 2") {
			t.Errorf("%q", got)
		}
		w.fails(fault.Newf(fault.NotFound, "run command", "", "no such folder"))
		w.emit("mail.old", `3`)
		timetest.Wait()
		w.fails(nil)
		w.emit("mail.old", `4`)
		timetest.Wait()
		if got := w.handled(); len(got) != 3 || !strings.HasPrefix(got[2], "first 4") || !strings.Contains(w.log(), "no such folder") {
			t.Errorf("%q; the log has %s", got, w.log())
		}
	})
}

// Forget ends the daemons and handlers of an agent.
func TestForget(t *testing.T) {
	try(t, func(t *testing.T, w *world) {
		w.Begin(alice, "rss", watcher())
		w.Begin(alice, "mail", listener("first"))
		timetest.Wait()
		w.Forget(alice.ID)
		timetest.Wait()
		w.emit("mail.old", "1")
		w.crash(1)
		time.Sleep(time.Minute)
		timetest.Wait()
		if w.starts() != 1 || w.live() != 0 || len(w.handled()) != 0 {
			t.Errorf("%d starts, %d live, %q", w.starts(), w.live(), w.handled())
		}
	})
}
