//go:build linux

package room

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLowerMemory: a room that holds more than its new limit, and has not written it to disk yet, keeps
// nobody waiting for that, and the kernel kills for it only afterwards. What is set meanwhile stays, and
// so does what another room has that is made in its place.
func TestLowerMemory(t *testing.T) {
	const busy = 20 * time.Second
	g, c := group(t.TempDir()), new(ceiling)
	set := func(file, text string) {
		if err := os.WriteFile(filepath.Join(string(g), file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(current, dirty int) {
		set("memory.stat", fmt.Sprintf("file 1\nfile_dirty %d\nfile_writeback 0\n", dirty))
		set("memory.current", fmt.Sprintln(current))
	}
	// It is written over from the beginning, as no file of a cgroup is.
	is := func(file, want string) bool { return strings.HasPrefix(g.text(file), want) }
	lower := func(limit uint64) {
		t.Helper()
		set("memory.max", "")
		set("memory.high", "")
		began := time.Now()
		if err := c.set(g, limit); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > busy {
			t.Errorf("it took %v", took)
		}
	}
	holds(300, 0)
	lower(100)
	if !is("memory.max", "100") || !is("memory.high", "max") {
		t.Errorf("nothing is to be written: %q, %q", g.text("memory.max"), g.text("memory.high"))
	}
	holds(300, 250)
	lower(100)
	if !is("memory.high", "100") || g.text("memory.max") != "" {
		t.Errorf("it kills: %q, %q", g.text("memory.max"), g.text("memory.high"))
	}
	holds(90, 40)
	for end := time.Now().Add(busy); !is("memory.max", "100") || !is("memory.high", "max"); time.Sleep(settleCheck) {
		if time.Now().After(end) {
			t.Fatalf("it is written, and yet: %q, %q", g.text("memory.max"), g.text("memory.high"))
		}
	}
	holds(300, 250)
	lower(100)
	if err := c.set(g, 500); err != nil {
		t.Fatal(err)
	}
	holds(90, 0)
	time.Sleep(10 * settleCheck)
	if !is("memory.max", "500") || !is("memory.high", "max") {
		t.Errorf("the last does not stand: %q, %q", g.text("memory.max"), g.text("memory.high"))
	}
	// One whose first write comes late.
	high, late := filepath.Join(string(g), "memory.high"), filepath.Join(string(g), "late")
	if err := errors.Join(os.Remove(high), unix.Mkfifo(high, 0o600)); err != nil {
		t.Fatal(err)
	}
	holds(300, 250)
	if err := c.set(g, 100); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(high, late); err != nil {
		t.Fatal(err)
	}
	set("memory.high", "")
	if err := c.set(g, 500); err != nil {
		t.Fatal(err)
	}
	set("memory.high", "100")
	if b, err := os.ReadFile(late); err != nil || string(b) != "100" {
		t.Fatalf("%q, %v", b, err)
	}
	for end := time.Now().Add(busy); !is("memory.high", "max"); time.Sleep(settleCheck) {
		if time.Now().After(end) {
			t.Fatalf("it stays: %q", g.text("memory.high"))
		}
	}
	// A room that is made where this one was has its own.
	holds(300, 250)
	lower(100)
	c.end()
	set("memory.high", "700")
	holds(90, 0)
	time.Sleep(10 * settleCheck)
	if err := c.settle(g, 100, c.turn-1); err != nil { // it begins late
		t.Error(err)
	}
	if g.text("memory.max") != "" || !is("memory.high", "700") {
		t.Errorf("after the room: %q, %q", g.text("memory.max"), g.text("memory.high"))
	}
}
