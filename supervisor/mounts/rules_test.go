package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// person makes a home folder of a person with things in it that are never mounted.
func person(t *testing.T) Rules {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".ssh/keys", ".config/gcloud", ".config/app", "src/app/sub", "src/secret", "Private", ".osaurus/container", "over/data", ".mozilla/firefox"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"src/keys": home + "/.ssh", "src/inner": home + "/.ssh/keys", "src/rel": "../.ssh", "src/mine": home + "/src/app", "src/me": home, "src/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "src/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return Rules{Home: config.Home(home + "/.osaurus"), Person: home, Never: func() []config.HostFolder {
		return []config.HostFolder{"~/src/secret", "~/over/data/not/yet", config.HostFolder(home + "/Private")}
	}}
}

func TestWhatMayBeMounted(t *testing.T) {
	r := person(t)
	for _, tc := range []struct {
		path string // below the person's home, unless it is absolute
		all  bool
		kind fault.Kind // empty: it is mounted
		why  string
	}{
		{"src/app", false, "", "src/app"},
		{"src/app/sub", false, "", "src/app/sub"},
		{"src/app/../app/.", false, "", "src/app"},
		{"src/mine", false, "", "src/app"},
		{".config/app", false, "", ".config/app"},
		{"", true, "", ""},
		{"src/me", true, "", ""},

		{"/", false, fault.Rejected, "root"},
		{"/", true, fault.Rejected, "root"},
		{"", false, fault.Rejected, "--yes-all-of-it"},
		{"src/me", false, fault.Rejected, "--yes-all-of-it"},
		{".ssh", false, fault.Rejected, "keys"},
		{".ssh", true, fault.Rejected, "keys"},
		{".ssh/keys", false, fault.Rejected, "keys"},
		{"src/keys", false, fault.Rejected, "keys"},
		{"src/inner", false, fault.Rejected, "keys"},
		{"src/rel", false, fault.Rejected, "keys"},
		{".config/gcloud", false, fault.Rejected, "keys"},
		{".config", false, fault.Rejected, "gcloud"},
		{".mozilla/firefox", false, fault.Rejected, "profiles"},
		{".osaurus", false, fault.Rejected, "own home"},
		{".osaurus/container", false, fault.Rejected, "own home"},
		{filepath.Dir(r.Person), true, fault.Rejected, "own home"},
		{"Private", false, fault.Rejected, "mounts.never"},
		{"src/secret", false, fault.Rejected, "mounts.never-=~/src/secret"},
		{"src", false, fault.Rejected, "src/secret"},
		{"over/data", false, fault.Rejected, "not/yet"}, // also what is not there yet
		{"src/file", false, fault.Rejected, "not a directory"},
		{"src/nothing", false, fault.NotFound, "Check"},
		{"src/loop", false, fault.Rejected, "Check"},
	} {
		path := tc.path
		if !filepath.IsAbs(path) {
			path = r.Person + "/" + path
		}
		root, folder, err := r.Open(path, tc.all)
		if root != nil {
			root.Close()
		}
		switch {
		case tc.kind == "" && (err != nil || folder != filepath.Join(r.Person, tc.why)):
			t.Errorf("%s: %q, %v", tc.path, folder, err)
		case tc.kind != "" && (root != nil || fault.KindOf(err) != tc.kind || !strings.Contains(err.Error()+fault.AdviceOf(err), tc.why) || fault.AdviceOf(err) == ""):
			t.Errorf("%q (all: %v): %q, %v (%s), want %s, %q", tc.path, tc.all, folder, err, fault.AdviceOf(err), tc.kind, tc.why)
		}
	}
	if _, _, err := r.Open("src/app", false); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a relative path: %v", err)
	}
	r.Person = ""
	if _, _, err := r.Open(filepath.Dir(string(r.Home))+"/src/app", false); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("without a known home: %v", err)
	}
}

// A link that takes the place of a checked folder leads to no folder that is never mounted: what is checked is what
// was opened.
func TestFolderIsSwapped(t *testing.T) {
	r := person(t)
	path, aside := r.Person+"/src/swapped", r.Person+"/src/aside"
	if err := os.Mkdir(aside, 0o700); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(aside, path)
			_ = os.Rename(path, aside)
			_ = os.Symlink(r.Person+"/.ssh", path)
			_ = os.Remove(path)
		}
	}()
	keys, _ := identityOf(r.Person + "/.ssh")
	for range 5000 {
		root, _, err := r.Open(path, false)
		if err != nil {
			continue
		}
		if is(root, keys) {
			t.Error("the keys were opened")
		}
		root.Close()
	}
	close(stop)
	<-stopped
}

func TestNewMounts(t *testing.T) {
	const home = "/workspace/agents/alice"
	for _, tc := range []struct {
		n    Mount
		from string
		name config.MountName // empty: refused
		at   string
	}{
		{Mount{}, "/src/app", "app", "/mnt/app"},
		{Mount{}, "/src/My App (2)", "My-App-2-", "/mnt/My-App-2-"},
		{Mount{}, "/src/.hidden", "hidden", "/mnt/hidden"},
		{Mount{}, "/src/日本", "folder", "/mnt/folder"},
		{Mount{}, "/src/" + strings.Repeat("x", 200), config.MountName(strings.Repeat("x", maxName)), "/mnt/" + strings.Repeat("x", maxName)},
		{Mount{Name: "b", At: home + "/b"}, "/src/app", "b", home + "/b"},
		{Mount{Name: "a/b"}, "/src/app", "", ""},
		{Mount{Name: config.MountName(strings.Repeat("x", maxName+1))}, "/src/app", "", ""},
		{Mount{At: "/etc"}, "/src/app", "", ""},
		{Mount{At: "/mnt"}, "/src/app", "", ""},
		{Mount{At: "/mnt/../etc"}, "/src/app", "", ""},
		{Mount{At: home}, "/src/app", "", ""},
		{Mount{At: home + "x/y"}, "/src/app", "", ""},
		{Mount{At: "mnt/app"}, "/src/app", "", ""},
		{Mount{Mode: "Write"}, "/src/app", "", ""},
		{Mount{Until: time.Now().Add(-time.Second)}, "/src/app", "", ""},
		{Mount{Until: time.Now().Add(maxFor + time.Hour)}, "/src/app", "", ""},
	} {
		m, err := tc.n.complete("id", home, tc.from)
		if m.Name != tc.name || m.At != tc.at || (tc.name == "") != (fault.KindOf(err) == fault.InvalidArgs) {
			t.Errorf("%+v of %s: %+v, %v", tc.n, tc.from, m, err)
		}
	}
	a, b := Mount{Name: "app", Folder: "/a"}, Mount{Name: "app", Folder: "/b"}
	if a.guestName() == b.guestName() {
		t.Error("changes to one folder would be shown over another")
	}
}
