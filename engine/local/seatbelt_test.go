package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProfile checks what the profile for macOS allows with and without the network. Only a
// Mac can run it.
func TestProfile(t *testing.T) {
	for _, c := range []spec{{}, {Network: true}, {ReadOnly: true, Readable: []string{"/a", "/b"}}} {
		text := profile(c)
		if strings.Count(text, "(") != strings.Count(text, ")") || strings.Count(text, `"`)%2 != 0 {
			t.Errorf("%+v is not balanced:\n%s", c, text)
		}
		for part, want := range map[string]bool{
			"/private/var/run/mDNSResponder": c.Network, "com.apple.trustd.agent": c.Network, "network-outbound": c.Network,
			`(allow file-write* (subpath (param "WORKSPACE")))`: !c.ReadOnly,
			`(subpath (param "READABLE1"))`:                     len(c.Readable) > 1,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("%+v: %q is there: %v", c, part, !want)
			}
		}
	}
}

// TestRealPaths: Seatbelt compares real paths, and /tmp and /var are links on macOS.
func TestRealPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	given := []string{link, dir}
	if got, err := realPaths("test", given); err != nil || !slices.Equal(got, []string{dir, dir}) || given[0] != link {
		t.Errorf("%q, %v", got, err)
	}
}
