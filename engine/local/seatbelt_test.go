package local

import (
	"strings"
	"testing"
)

// TestProfile checks what the profile for macOS allows with and without the network. Only a
// Mac can run it.
func TestProfile(t *testing.T) {
	for _, c := range []spec{{}, {Network: true}, {ReadOnly: true}} {
		text := profile(c)
		if strings.Count(text, "(") != strings.Count(text, ")") || strings.Count(text, `"`)%2 != 0 {
			t.Errorf("%+v is not balanced:\n%s", c, text)
		}
		for part, want := range map[string]bool{
			"/private/var/run/mDNSResponder": c.Network, "com.apple.trustd.agent": c.Network, "network-outbound": c.Network,
			`(allow file-write* (subpath (param "WORKSPACE")))`: !c.ReadOnly,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("%+v: %q is there: %v", c, part, !want)
			}
		}
	}
}
