package guest

import (
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// FuzzChange checks that whatever a guest says of a change names a file below the mount.
func FuzzChange(f *testing.F) {
	for _, c := range []*guestpb.Change{
		{Path: []byte("src/main.go"), Mode: 0o100644, Size: 1 << 63, MadeUnixNano: -1},
		{Path: []byte("a\nb"), Mode: 0o120777, Target: []byte("../x")},
		{Path: []byte("../x"), Mode: 99}, {Path: []byte("a/../../x")}, {Path: []byte("/x")}, {Path: []byte("a//b")}, {Path: []byte("a\x00b")}, {},
	} {
		b, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(guestpb.Change)
		if proto.Unmarshal(b, m) != nil {
			return
		}
		c, err := parseChange(m)
		if err != nil {
			return
		}
		if !filepath.IsLocal(c.Path) || c.Path == "." || c.Path != filepath.Clean(c.Path) || len(c.Path) > protocol.MaxPath || strings.ContainsRune(c.Path, 0) {
			t.Errorf("the path %q", c.Path)
		}
		if c.Kind == "" || c.Mode > 0o7777 || len(c.Target) > protocol.MaxPath {
			t.Errorf("%+v", c)
		}
	})
}
