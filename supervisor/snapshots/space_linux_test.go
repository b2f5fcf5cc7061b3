package snapshots_test

import (
	"slices"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
)

// TestNoSpace refuses what does not fit before anything changes, and leaves nothing.
func TestNoSpace(t *testing.T) {
	smalldisk.Run(t, "64m", func(disk *smalldisk.Disk) {
		w := &world{t: t, dir: config.Home(disk.Dir + "/home")}
		w.write(w.dir.DataDisk(), "disk")
		w.open()
		defer w.close()
		w.create("alice")
		w.write(w.file("alice"), string(make([]byte, 1<<20)))
		for range 2 {
			_, err := w.Create(t.Context(), "a", true, nil, by)
			w.want(err, fault.Unavailable)
			if names := w.names(); !slices.Equal(names, nil) {
				t.Errorf("left are %q", names)
			}
			disk.Fill()
		}
		disk.Free()
	})
}
