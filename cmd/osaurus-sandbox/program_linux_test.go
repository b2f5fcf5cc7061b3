package main

import (
	"encoding/json"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

// TestMemoryAndTasks covers what the command line adds to the API of memory and tasks: words that
// become one text, beginnings of ids, JSON lines, exit codes. No guest runs.
func TestMemoryAndTasks(t *testing.T) {
	sessionHome(t, "home")
	ok(t, "agent", "create", "alice")

	id := strings.TrimSpace(ok(t, "memory", "add", "alice", "--pin", "the", "key", "is", "under", "the", "mat\x1b[2J"))
	ok(t, "memory", "add", "alice", "Anna likes tea")
	shows(t, "under the mat·[2J", "memory", "list", "alice")
	if out := ok(t, "memory", "search", "alice", "where is the key?"); !strings.Contains(out, id) || strings.Contains(out, "tea") {
		t.Errorf("%q", out)
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
	fails(t, fault.ExitNotFound, "", "memory", "delete", "alice", id)
	ok(t, "memory", "delete", "alice", "--all", "--yes")
	prints(t, "", "memory", "export", "alice")

	task := strings.TrimSpace(ok(t, "task", "add", "alice", "--key", "k", "mow", "the\nlawn"))
	shows(t, "mow the lawn", "task", "list")
	var taken struct {
		Lease string
		Task  struct{ ID, State string }
	}
	if err := json.Unmarshal([]byte(ok(t, "task", "take", "alice", "--hold", "10m")), &taken); err != nil || taken.Task.ID != task || taken.Lease == "" {
		t.Fatalf("%+v, %v", taken, err)
	}
	fails(t, fault.ExitNotFound, "none waits", "task", "take")
	fails(t, fault.ExitRejected, "", "task", "done", task, "no-lease")
	ok(t, "task", "fail", task[:8], taken.Lease, "--retry", "it", "rains")
	if out := ok(t, "task", "show", strings.ToLower(task[:6])); !strings.Contains(out, "it rains") || !strings.Contains(out, "queued") || !strings.Contains(out, "expires") {
		t.Errorf("%q", out)
	}
	prints(t, "cancelled\n", "task", "cancel", task[:8])
	prints(t, "", "task", "list", "--open", "--json")
	fails(t, fault.ExitNotFound, "", "task", "show", "nothing")

	for _, args := range [][]string{{"events", "--agent", "alice"}, {"events", "--agents", "--topic", "a.*"}, {"logs", "--agent", "alice"}} {
		prints(t, "", args...)
	}
	fails(t, fault.ExitInvalidArgs, "", "events", "--topic", "a*b")
	fails(t, fault.ExitNotFound, "", "logs", "--agent", "carol")
}
