package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

// home returns a home that does not exist yet.
func home(t *testing.T) Home { return Home(filepath.Join(t.TempDir(), "home")) }

func TestFindHome(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for _, tc := range []struct {
		env  string
		want Home
	}{{"", "/home/me/.osaurus"}, {"/srv/o/", "/srv/o"}, {"here", ""}} {
		t.Setenv(HomeVariable, tc.env)
		got, err := FindHome()
		if got != tc.want || (tc.want == "" && fault.KindOf(err) != fault.InvalidArgs) {
			t.Errorf("FindHome with %q = %q, %v", tc.env, got, err)
		}
	}
	t.Setenv(HomeVariable, "")
	t.Setenv("HOME", "me")
	if got, err := FindHome(); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("FindHome with a relative HOME = %q, %v", got, err)
	}
}

func TestMakeIsPrivate(t *testing.T) {
	h := home(t)
	dir, err := h.Make(h.AgentHome("alice"))
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(string(h)); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	if err := os.Chmod(string(h), 0o775); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Make(h.Run()); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "chmod go-w") {
		t.Errorf("a home that others can write to: %v", err)
	}
}

// TestMakeInAnothersFolder: another user who owns the home could replace files in it.
func TestMakeInAnothersFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("*** NOT TRIED: only root can have a folder of another user. Run this test as root.")
	}
	h := home(t)
	if _, err := h.Make(h.Run()); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Chown(string(h), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Make(h.Run()); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "another user, nobody") {
		t.Errorf("a home of another user: %v", err)
	}
}
