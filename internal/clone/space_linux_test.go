package clone_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/smalldisk"
)

// TestFullDisk leaves nothing of a copy that does not fit.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "8m", func(disk *smalldisk.Disk) {
		name := filepath.Join(disk.Dir, "f")
		must(t, os.WriteFile(name, make([]byte, 5<<20), 0o600))
		f, err := os.Open(name)
		must(t, err)
		defer f.Close()
		if _, err := clone.File(t.Context(), f, root(t, disk.Dir), "copy", nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("File: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(disk.Dir, "copy")); err == nil {
			t.Error("a part of the copy is left")
		}
	})
}
