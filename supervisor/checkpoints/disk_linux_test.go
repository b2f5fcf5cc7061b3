package checkpoints_test

import (
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/supervisor/checkpoints"
)

// On a full disk calls run without checkpoints, and what was kept before can be undone later.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "8m", func(d *smalldisk.Disk) {
		w := newWorldIn(t, config.Home(filepath.Join(d.Dir, "home")))
		w.call("a=1")
		w.call("a=2")
		w.calls()
		w.write("b=" + strings.Repeat("unkept", 10_000))
		d.Fill()
		for range 2 {
			r := w.Begin(t.Context(), w.alice, "exec", "")
			if warning := r.End("ok"); warning == "" {
				t.Error("nobody is told that there is no checkpoint")
			}
		}
		if _, err := w.undo(checkpoints.Request{Call: 2}); err == nil {
			t.Error("it was undone without a way back")
		}
		d.Free()
		w.open() // and waits no longer
		_, err := w.undo(checkpoints.Request{Call: 2, Paths: []string{"a"}})
		w.must(err)
		if got := w.files()[0]; got != "a=1" {
			t.Error(got)
		}
	})
}
