//go:build linux

package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/guest/process/processtest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// TestHangingShare checks that Start and Release give up on a share that hangs, and that nothing is
// left when the share answers.
func TestHangingShare(t *testing.T) {
	const patience, busy = time.Second, time.Minute
	begin := func(t *testing.T) (m *Manager, start func(Place, ...string) (*Child, error), share processtest.Share) {
		t.Parallel()
		share = processtest.HangingShare(t)
		m, err := NewManager(Options{Cgroup: processtest.Cgroup(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { share.LetGo(); m.Close() })
		m.patience = patience
		return m, func(p Place, args ...string) (*Child, error) {
			began := time.Now()
			c, err := m.Start(Spec{Args: args, Dir: "/", Place: p})
			if took := time.Since(began); took > endWithin+busy {
				t.Errorf("%q took %v", args, took)
			}
			return c, err
		}, share
	}
	t.Run("Look", func(t *testing.T) {
		m, start, share := begin(t)
		place := spot{}
		if _, err := m.Start(Spec{Args: []string{"/bin/true"}, Dir: share.Dir + "/work", Place: place}); !isLate(err, share.Dir+"/work") {
			t.Error(err)
		}
		for range 2 {
			if _, err := start(place, filepath.Join(share.Dir, "program")); !isLate(err, "a share that it needs") {
				t.Error(err)
			}
		}
		m.patience = busy
		if c, err := start(place, "/bin/true"); err != nil {
			t.Errorf("another beside it: %v", err)
		} else {
			c.Release()
		}
		timetest.Eventually(t, "three threads are stuck", func() bool { return m.starting.Load() == 3 })
		m.starting.Add(maxStarting - 3)
		if _, err := start(place, "/bin/true"); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("with too many: %v", err)
		}
		m.starting.Add(3 - maxStarting)
		share.LetGo()
		timetest.Eventually(t, "no thread is left", func() bool { return m.starting.Load() == 0 })
	})
	t.Run("Execve", func(t *testing.T) {
		m, start, share := begin(t)
		script := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(script, []byte("#!"+share.Dir+"/interpreter\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		c, err := start(nil, script)
		for err != nil && c.PID() == 0 && m.patience < busy { // the host was too slow to fork it
			m.patience *= 4
			c, err = start(nil, script)
		}
		if !isLate(err, "a share that it needs") || c.PID() == 0 {
			t.Fatal(err)
		}
		runtime.GC() // must not free the memory that the child uses
		share.LetGo()
		<-c.Done()
		if !Killed(c.Status()) {
			t.Errorf("not killed: %v", c.Status())
		}
	})
	t.Run("Release", func(t *testing.T) {
		m, start, share := begin(t)
		m.patience = busy
		c, err := start(nil, "/bin/cat", filepath.Join(share.Dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		<-share.Asked // from now on it cannot be killed
		began := time.Now()
		c.Release()
		if took := time.Since(began); took > endWithin+busy {
			t.Errorf("it took %v", took)
		}
		select {
		case <-c.Done():
			t.Error("it could be killed")
		default:
		}
		share.LetGo()
		<-c.Done()
		if !Killed(c.Status()) {
			t.Errorf("status %v", c.Status())
		}
	})
}

// isLate reports whether an error says that a program has not started in time, with advice that names
// where.
func isLate(err error, where string) bool {
	return fault.KindOf(err) == fault.Timeout && strings.Contains(err.Error(), "it has not started after") && strings.Contains(fault.AdviceOf(err), where)
}
