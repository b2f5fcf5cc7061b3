package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestMemoryAndTasks is what people do with what programs of agents ask for. None of
// it starts a guest.
func TestMemoryAndTasks(t *testing.T) {
	sessionHome(t, "home")
	ok(t, "agent", "create", "alice")
	ok(t, "agent", "create", "bob")
	fails := func(code int, args ...string) {
		t.Helper()
		if got, _, stderr := sandbox(t, args...); got != code {
			t.Errorf("%v: %d, want %d; %s", args, got, code, stderr)
		}
	}

	id := strings.TrimSpace(ok(t, "memory", "add", "alice", "--pin", "the", "key", "is", "under", "the", "mat\x1b[2J"))
	ok(t, "memory", "add", "alice", "Anna likes tea")
	if out := ok(t, "memory", "list", "alice"); !strings.Contains(out, "under the mat·[2J") || !strings.Contains(out, "pinned  person") || strings.Count(out, "\n") != 3 {
		t.Errorf("%q", out)
	}
	if out := ok(t, "memory", "search", "alice", "where is the key?"); !strings.Contains(out, id) || strings.Contains(out, "tea") {
		t.Errorf("%q", out)
	}
	if out := ok(t, "memory", "search", "bob", "key"); strings.Count(out, "\n") != 1 {
		t.Errorf("bob's: %q", out)
	}
	ok(t, "memory", "pin", "alice", id, "--undo")
	lines := strings.Split(strings.TrimSpace(ok(t, "memory", "export", "alice")), "\n")
	var fact struct {
		ID, Content string
		Pinned      bool
	}
	if err := json.Unmarshal([]byte(lines[0]), &fact); err != nil || len(lines) != 2 || fact.ID != id || fact.Pinned || fact.Content != "the key is under the mat\x1b[2J" {
		t.Errorf("%q, %v", lines, err)
	}
	ok(t, "memory", "delete", "alice", id)
	fails(7, "memory", "delete", "alice", id)
	fails(2, "memory", "delete", "alice")
	ok(t, "memory", "delete", "alice", "--all", "--yes")
	if out := ok(t, "memory", "export", "alice"); out != "" {
		t.Errorf("%q", out)
	}

	task := strings.TrimSpace(ok(t, "task", "add", "alice", "--key", "k", "mow", "the\nlawn"))
	if again := strings.TrimSpace(ok(t, "task", "add", "alice", "--key", "k", "mow the lawn")); again != task {
		t.Errorf("%s and %s", again, task)
	}
	if out := ok(t, "task", "list"); !strings.Contains(out, task[:12]) || !strings.Contains(out, "queued") || !strings.Contains(out, "mow the lawn") {
		t.Errorf("%q", out)
	}
	fails(7, "task", "take", "bob")
	var taken struct {
		Lease string
		Task  struct{ ID, State string }
	}
	if err := json.Unmarshal([]byte(ok(t, "task", "take", "alice", "--hold", "10m")), &taken); err != nil || taken.Task.ID != task || taken.Lease == "" {
		t.Fatalf("%+v, %v", taken, err)
	}
	fails(3, "task", "done", task, "no-lease")
	ok(t, "task", "fail", task[:8], taken.Lease, "--retry", "it", "rains")
	if out := ok(t, "task", "show", strings.ToLower(task[:6])); !strings.Contains(out, "it rains") || !strings.Contains(out, "queued") || !strings.Contains(out, "expires") {
		t.Errorf("%q", out)
	}
	if err := json.Unmarshal([]byte(ok(t, "task", "take")), &taken); err != nil {
		t.Fatal(err)
	}
	ok(t, "task", "done", task, taken.Lease, "it", "is", "mown")
	if out := ok(t, "task", "show", task); !strings.Contains(out, "it is mown") || !strings.Contains(out, "done") {
		t.Errorf("%q", out)
	}
	other := strings.TrimSpace(ok(t, "task", "add", "bob", "rest"))
	if out := ok(t, "task", "cancel", other[:8]); out != "cancelled\n" {
		t.Errorf("%q", out)
	}
	if out := ok(t, "task", "list", "--open", "--json"); out != "" {
		t.Errorf("%q", out)
	}
	fails(7, "task", "show", "nothing")

	for _, args := range [][]string{{"events", "--agent", "alice"}, {"events", "--agents", "--topic", "a.*"}, {"logs", "--agent", "alice"}} {
		if out := ok(t, args...); out != "" {
			t.Errorf("%v: %q", args, out)
		}
	}
	fails(2, "events", "--topic", "a*b")
	fails(7, "events", "--agent", "carol")
	fails(7, "logs", "--agent", "carol")
}
