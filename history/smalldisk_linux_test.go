package history_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
)

// TestFullDisk makes and restores checkpoints on a disk without space.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "12m", func(d *smalldisk.Disk) {
		dir, kept := filepath.Join(d.Dir, "home"), filepath.Join(d.Dir, "history")
		must(t, os.Mkdir(dir, 0o700))
		h, r := open(t, kept, history.Options{}), root(t, dir)
		write := func(name, text string, size int) {
			must(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(text), size), 0o600))
		}
		for _, name := range []string{"b", "m", "z"} {
			write(name, "old "+name, 200<<10)
		}
		old, first := checkpoint(t, h, r), look(t, dir)
		empty(t, dir)
		write("a", "new", 10)
		write("m", "new", 10)
		write("z", "new", 10)
		now, second := checkpoint(t, h, r), look(t, dir)
		write("c", "more", 100<<10)
		before := objects(t, kept)
		d.Fill()
		if _, err := h.Checkpoint(t.Context(), "home", r); !errors.Is(err, syscall.ENOSPC) || fault.AdviceOf(err) == "" {
			t.Fatal(err)
		}
		same(t, objects(t, kept), before)
		if head, _ := h.Head("home"); head != now.Tree {
			t.Fatal(head)
		}
		must(t, os.Remove(filepath.Join(dir, "c")))
		d.Free()
		must(t, os.WriteFile(filepath.Join(d.Dir, "reserve"), make([]byte, 1200<<10), 0o600))
		d.Fill()
		must(t, os.Remove(filepath.Join(d.Dir, "reserve"))) // room for one file, not for all
		_, err := h.Restore(t.Context(), "home", r, old.Tree, nil, nil)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		same(t, look(t, dir), second)
		d.Free()
		_, err = h.Restore(t.Context(), "home", r, old.Tree, nil, nil)
		must(t, err)
		same(t, look(t, dir), first)
	})
}
