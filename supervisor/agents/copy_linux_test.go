package agents_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/supervisor/parcel"
)

// A full disk of a room is why a copy into it fails, and no reason for one that does not: what
// is copied out needs none, and the home is on another.
func TestCopyWithAFullDisk(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	w.must(w.exec("alice"))
	w.backend.Guest().Fill()
	source, back := filepath.Join(t.TempDir(), "file"), t.TempDir()
	w.must(os.WriteFile(source, []byte("text"), 0o600))
	var out, in bytes.Buffer
	w.must(w.CopyOut(t.Context(), "alice", source, &out))
	if _, err := parcel.Place(t.Context(), &out, "file", back); err != nil {
		t.Error(err)
	}
	w.want(w.CopyOut(t.Context(), "alice", source+"s", &out), fault.NotFound)
	_, err := parcel.Pack(t.Context(), &in, source, "file")
	w.must(err)
	all := in.Bytes()
	w.must(w.CopyIn(t.Context(), "alice", t.TempDir(), "file", bytes.NewReader(all)))
	w.want(w.CopyIn(t.Context(), "alice", t.TempDir(), "file", bytes.NewReader(all[:len(all)/2])), fault.Rejected)
}
