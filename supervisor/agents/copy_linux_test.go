package agents_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/supervisor/copyfiles"
)

// A full disk of a room is why a copy into it fails that found no space, and no reason for
// another: the home is on a disk of its own.
func TestCopyWithAFullDisk(t *testing.T) {
	smalldisk.Run(t, "1m", func(disk *smalldisk.Disk) {
		w := newWorld(t)
		w.create("alice")
		w.must(w.exec("alice"))
		w.backend.Guest().Fill()
		source, back := filepath.Join(t.TempDir(), "file"), t.TempDir()
		w.must(os.WriteFile(source, make([]byte, 2<<20), 0o600))
		var out, in bytes.Buffer
		w.must(w.CopyOut(t.Context(), "alice", source, &out))
		if _, err := copyfiles.Place(t.Context(), &out, "file", back); err != nil {
			t.Error(err)
		}
		w.want(w.CopyOut(t.Context(), "alice", source+"s", &out), fault.NotFound)
		_, err := copyfiles.Pack(t.Context(), &in, source, "file")
		w.must(err)
		all := in.Bytes()
		copyIn := func(to string, archive []byte) error {
			return w.CopyIn(t.Context(), "alice", to, "file", bytes.NewReader(archive))
		}
		w.must(copyIn(t.TempDir(), all))
		if err := copyIn(t.TempDir(), all[:len(all)/2]); fault.KindOf(err) != fault.Execution {
			t.Errorf("what comes half: %v", err)
		}
		if err := copyIn(disk.Dir, all); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "tar: ") {
			t.Errorf("where no space is left: %v", err)
		}
	})
}
