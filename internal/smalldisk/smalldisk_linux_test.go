package smalldisk_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/smalldisk"
)

func TestRun(t *testing.T) {
	smalldisk.Run(t, "1m", func(d *smalldisk.Disk) {
		write := func() error {
			return os.WriteFile(filepath.Join(d.Dir, "file"), []byte("text"), 0o600)
		}
		if d.Fill(); !errors.Is(write(), syscall.ENOSPC) {
			t.Errorf("full: %v", write())
		}
		if d.Free(); write() != nil {
			t.Errorf("free: %v", write())
		}
		if d.ReadOnly(true); !errors.Is(write(), syscall.EROFS) {
			t.Errorf("read-only: %v", write())
		}
		if d.ReadOnly(false); write() != nil {
			t.Errorf("writable: %v", write())
		}
	})
}
