//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/machine"
)

// TestLife goes through the life of one sandbox.
func TestLife(t *testing.T) {
	home := bareHome(t)
	s := newSandbox(t, home)
	if state := s.Status().State; state != machine.NotProvisioned {
		t.Fatalf("a new home is %s", state)
	}
	if _, err := s.Exec(t.Context(), engine.Command{Args: []string{"true"}}); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("Exec before anything is provisioned: %v", err)
	}
	began := time.Now()
	s.must(s.Start(t.Context(), by))
	t.Logf("provisioned and started in %v", time.Since(began))
	for _, step := range s.Status().Progress.Steps {
		t.Logf("%s %s %v %s", step.Name, step.State, step.Took, step.Detail)
	}
	s.run("echo from the guest > /workspace/shared/note; echo kept > /root/kept; sync")
	note := filepath.Join(home.SharedFolder(), "note")
	if text, err := os.ReadFile(note); err != nil || string(text) != "from the guest\n" {
		t.Errorf("the workspace on the host: %q, %v", text, err)
	}

	began = time.Now()
	s.must(s.Stop(t.Context(), by))
	t.Logf("stopped in %v", time.Since(began))
	if found := machines(t, os.Getpid()); len(found) > 0 {
		t.Errorf("machines after Stop: %v", found)
	}
	if text := s.run("cat /root/kept"); text != "kept" { // started on demand
		t.Errorf("after a stop the data disk says %q", text)
	}

	t.Run("a machine that is killed", func(t *testing.T) {
		p, err := s.Exec(t.Context(), engine.Command{Args: []string{"sleep", "1000"}})
		s.must(err)
		before := s.Status().StartedAt
		send(t, qemuPID(t, os.Getpid()), syscall.SIGKILL)
		began := time.Now()
		if _, err := p.Wait(); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("the command's end: %v (%s)", err, fault.KindOf(err))
		}
		t.Logf("the command ended after %v", time.Since(began))
		began = time.Now()
		s.must(left(t.Context(), s.Machine, machine.Running))
		if took := time.Since(began); took > truth {
			t.Errorf("noticed after %v", took)
		}
		s.becomes(machine.Running)
		if !s.Status().StartedAt.After(before) {
			t.Error("the status has the old start")
		}
		if text := s.run("cat /root/kept"); text != "kept" {
			t.Errorf("after a crash the data disk says %q", text)
		}
	})

	s.must(s.Reset(t.Context(), by))
	if text := s.run("cat /root/kept 2>/dev/null || echo gone; cat /workspace/shared/note"); !strings.HasSuffix(text, "gone\nfrom the guest") {
		t.Errorf("after a reset: %q", text)
	}

	s.must(s.Remove(t.Context(), by))
	if state := s.Status().State; state != machine.NotProvisioned {
		t.Errorf("after Remove it is %s", state)
	}
	if _, err := os.Stat(note); err != nil {
		t.Errorf("the workspace after Remove: %v", err)
	}
}
