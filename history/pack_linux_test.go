package history_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
)

// FuzzUnpack restores what anyone has packed. The first object is the tree. Nothing appears beside the folder.
func FuzzUnpack(f *testing.F) {
	dir := f.TempDir()
	must(f, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	must(f, os.WriteFile(filepath.Join(dir, "a", "b", "f"), []byte("text"), 0o644))
	must(f, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 100), 0o644))
	must(f, os.Symlink("../x", filepath.Join(dir, "l")))
	from := open(f, f.TempDir(), history.Options{})
	c, err := from.Checkpoint(f.Context(), "home", root(f, dir))
	must(f, err)
	var pack bytes.Buffer
	must(f, from.Pack(f.Context(), c.Tree, &pack))
	f.Add(slices.Clone(pack.Bytes()[:pack.Len()/2]))
	f.Add([]byte{})
	small := filepath.Join(dir, "a")
	c, err = from.Checkpoint(f.Context(), "small", root(f, small))
	must(f, err)
	pack.Reset()
	must(f, from.Pack(f.Context(), c.Tree, &pack))
	f.Add(slices.Clone(pack.Bytes()))
	h := open(f, f.TempDir(), history.Options{MaxBytes: 1 << 30})
	f.Fuzz(func(t *testing.T, pack []byte) {
		if len(pack) < 4 {
			return
		}
		first := pack[4:]
		first = first[:min(uint64(len(first)), uint64(binary.BigEndian.Uint32(pack)))]
		top := t.TempDir()
		must(t, os.Mkdir(filepath.Join(top, "home"), 0o700))
		tree := history.Digest(sha256.Sum256(first))
		if h.Unpack(t.Context(), tree, bytes.NewReader(pack)) != nil {
			return
		}
		_, _ = h.Restore(t.Context(), top, root(t, filepath.Join(top, "home")), tree, nil, nil)
		if list, err := os.ReadDir(top); err != nil || len(list) != 1 {
			t.Errorf("there are %v, %v", list, err)
		}
	})
}

// A pack of other objects, or one that nobody waits for, is not read to its end.
func TestUnpackEnds(t *testing.T) {
	dir := t.TempDir()
	for name := range 100 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(name)), fmt.Append(nil, name), 0o644))
	}
	from, h := open(t, t.TempDir(), history.Options{}), open(t, t.TempDir(), history.Options{})
	c, err := from.Checkpoint(t.Context(), "home", root(t, dir))
	must(t, err)
	var packed bytes.Buffer
	must(t, from.Pack(t.Context(), c.Tree, &packed))
	pack := bytes.NewReader(packed.Bytes())
	if err := h.Unpack(t.Context(), history.Digest{1}, pack); fault.KindOf(err) != fault.Rejected || pack.Len() == 0 {
		t.Errorf("%v, %d bytes are left", err, pack.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pack.Reset(packed.Bytes())
	if err := h.Unpack(ctx, c.Tree, pack); !errors.Is(err, context.Canceled) || pack.Len() == 0 {
		t.Errorf("%v, %d bytes are left", err, pack.Len())
	}
	pack.Reset(packed.Bytes())
	must(t, h.Unpack(t.Context(), c.Tree, pack))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
