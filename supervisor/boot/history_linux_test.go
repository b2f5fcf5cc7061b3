package boot_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/toolstest"
)

// past undoes and redoes calls of a guest's agent, which sees it, unless a program has the files open.
func past(t *testing.T, w *toolstest.World) {
	w.Agent(t, "eve", nil)
	eve := eve(t, w)
	run := func(line string) string {
		t.Helper()
		var out bytes.Buffer
		p, err := w.Agents.Exec(t.Context(), "eve", engine.Command{Args: []string{"sh", "-c", line}, Dir: eve.Home(), Stdout: &out, Stderr: &out})
		if err == nil {
			_, err = p.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	call := func(line string) {
		t.Helper()
		r := w.History.Begin(t.Context(), eve, "exec", line)
		out := run(line)
		if warning := r.End("ok"); out != "" || warning != "" {
			t.Fatal(out, warning)
		}
	}
	const look = "cat a d/* 2>/dev/null; ls -A | tr '\n' ' '; stat -c %U:%a a"
	call("echo one > a; chmod 750 a; mkdir d; echo x > d/b; ln -s a link")
	first := run(look)
	call("echo two > a; rm -r d link; echo new > n")
	second := run(look)
	if list, err := w.History.List(t.Context(), eve, 10); err != nil || len(list) != 2 || list[0].Counts.Files() != "+1 ~1 -2" {
		t.Errorf("%+v %v", list, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	holds, err := w.Agents.Exec(ctx, "eve", engine.Command{Args: []string{"sh", "-c", "exec 3<a; echo > ready; exec sleep 1000"}, Dir: eve.Home()})
	if err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "the program has the file open", func() bool { return run("ls ready 2>/dev/null") == "ready" })
	timetest.Eventually(t, "the program is named", func() bool { // which has begun as sh
		_, err := w.History.Undo(t.Context(), eve, checkpoints.Request{Call: 2})
		if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "has a") {
			t.Fatalf("a program has the file open: %v", err)
		}
		return strings.Contains(err.Error(), "sleep 1000 (process")
	})
	if err := holds.Signal(t.Context(), engine.SIGKILL); err != nil {
		t.Error(err)
	}
	<-holds.Done() // and so it has ended in the guest
	run("rm ready")

	sees := func(what, want string) {
		t.Helper()
		var got string
		timetest.Eventually(t, "the guest sees "+what, func() bool { got = run(look); return got == want })
	}
	u, err := w.History.Undo(t.Context(), eve, checkpoints.Request{Call: 2})
	if err != nil || len(u.Notes) > 0 {
		t.Fatal(u, err)
	}
	sees("what was before", first)
	if _, err := w.History.Undo(t.Context(), eve, checkpoints.Request{Redo: true}); err != nil {
		t.Fatal(err)
	}
	sees("what was undone", second)
	pace(t, w, call, run)
}

// pace says what a checkpoint of 1,000 files adds to a command.
func pace(t *testing.T, w *toolstest.World, call func(string), run func(string) string) {
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(w.Home.AgentHome("eve"), fmt.Sprint("f", i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second) // files that were just written are read again
	call("true")
	var with, without time.Duration
	for range 3 {
		for range 5 {
			began := time.Now()
			call("true")
			with += time.Since(began)
		}
		if _, err := w.History.List(t.Context(), eve(t, w), 1); err != nil { // waits for the last checkpoint
			t.Fatal(err)
		}
		for range 5 {
			began := time.Now()
			run("true")
			without += time.Since(began)
		}
	}
	t.Logf("a command with a checkpoint / without: %.2f (%v / %v)", with.Seconds()/without.Seconds(), with/15, without/15)
}

func eve(t *testing.T, w *toolstest.World) agents.Agent {
	t.Helper()
	agent, err := w.Agents.Get("eve")
	if err != nil {
		t.Fatal(err)
	}
	return agent
}
