//go:build linux

package room

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/guest/guestpb"
)

// TestMetMemory checks when a command counts as killed for lack of memory, also before its execve.
func TestMetMemory(t *testing.T) {
	dir := t.TempDir()
	set := func(ooms, kills int) {
		text := fmt.Sprintf("low 0\nhigh 0\nmax 7\noom %d\noom_kill %d\noom_group_kill 0\n", ooms, kills)
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set(3, 2)
	if err := os.WriteFile(filepath.Join(dir, "pids.events"), []byte("max 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Room{group: group(dir), spec: &guestpb.Room{}}
	if err := r.openEvents(); err != nil {
		t.Fatal(err)
	}
	defer r.memory.Close()
	defer r.pids.Close()
	met := r.Watch()
	for _, c := range []struct {
		ooms, kills  int
		killed, want bool
	}{
		{3, 2, true, false}, // killed by another process
		{3, 2, false, false},
		{4, 3, false, true},
		{4, 2, true, true},
		{4, 2, false, false}, // another was killed, or an allocation failed
	} {
		set(c.ooms, c.kills)
		if oom, _, _ := met(c.killed); oom != c.want {
			t.Errorf("%+v: %t", c, oom)
		}
	}
}
