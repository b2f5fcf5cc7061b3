//go:build linux

package room

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestLowerMemory: the kernel does not kill for memory that a room is writing to disk.
func TestLowerMemory(t *testing.T) {
	g := group(t.TempDir())
	set := func(file, text string) {
		if err := os.WriteFile(filepath.Join(string(g), file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(current, dirty int) {
		set("memory.stat", fmt.Sprintf("file 1\nfile_dirty %d\nfile_writeback 0\n", dirty))
		set("memory.current", fmt.Sprintln(current))
		set("memory.max", "")
		set("memory.high", "")
	}
	lower := func() time.Duration {
		began := time.Now()
		if err := g.limitMemory(100); err != nil {
			t.Fatal(err)
		}
		// Written over the limit, as in no file of a cgroup.
		if g.text("memory.max") != "100" || g.text("memory.high") != "max" {
			t.Errorf("%q, %q", g.text("memory.max"), g.text("memory.high"))
		}
		return time.Since(began)
	}
	synctest.Test(t, func(*testing.T) {
		if holds(300, 0); lower() != 0 {
			t.Error("waited for nothing")
		}
		holds(300, 250)
		go func() {
			time.Sleep(time.Second)
			if g.text("memory.max") != "" || g.text("memory.high") != "100" {
				t.Errorf("meanwhile %q, %q", g.text("memory.max"), g.text("memory.high"))
			}
			set("memory.current", "90")
		}()
		if took := lower(); took < time.Second || took >= settleWithin {
			t.Errorf("it took %v", took)
		}
		if holds(300, 250); lower() < settleWithin {
			t.Error("it did not wait")
		}
	})
}
