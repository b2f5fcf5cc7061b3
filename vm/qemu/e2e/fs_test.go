//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/fs"
)

// fsGuest is a guest with several shares.
type fsGuest struct {
	*VM
	t      *testing.T
	shares map[string]string // folders of the host
}

func startFS(t *testing.T, arch vm.Arch) *fsGuest {
	set := &vm.Subtrees{}
	for _, s := range []vm.Subtree{
		{Path: "agents/alice", UID: 1000, GID: 1000},
		{Path: "agents/bob", UID: 1001, GID: 1001},
	} {
		if err := set.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	g := &fsGuest{t: t, shares: map[string]string{}}
	var devices []Device
	for _, share := range []vm.Share{
		{Tag: "asker", Ownership: vm.OwnershipAsker},
		{Tag: "tools", ReadOnly: true},
		{Tag: "work", Subtrees: set},
	} {
		share.Path = t.TempDir()
		if err := os.Chmod(share.Path, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := fs.New(share, fs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		g.shares[share.Tag] = share.Path
		devices = append(devices, Device{Backend: d, QEMU: "vhost-user-fs-pci,queue-size=1024,tag=" + share.Tag})
	}
	for _, home := range []string{"agents/alice", "agents/bob"} {
		if err := os.MkdirAll(filepath.Join(g.shares["work"], home), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "test", "-c", "-trimpath", "-o", filepath.Join(g.shares["tools"], "onshare"), "osaurus-sandbox/vm/qemu/e2e/onshare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+string(arch))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g.VM = Start(t, Options{Devices: devices, Arch: arch})
	g.mount()
	return g
}

func (g *fsGuest) mount() {
	g.t.Helper()
	for tag := range g.shares {
		g.MustRun("mount", tag, "/mnt/"+tag)
	}
}

// expect runs a command whose answer or error must contain want.
func (g *fsGuest) expect(t *testing.T, want string, words ...any) {
	t.Helper()
	v, err := g.Run(words...)
	got := strings.Trim(string(v), `"`)
	if err != nil {
		got += err.Error()
	}
	if !strings.Contains(got, want) {
		t.Errorf("%v: %q, want %q", words, got, want)
	}
}

// onShare runs the test binary in the guest.
func (g *fsGuest) onShare(t *testing.T, args ...any) {
	t.Helper()
	v, err := g.Run(append([]any{"exec", "/mnt/tools/onshare", "-test.timeout=5m"}, args...)...)
	if err != nil {
		var out string
		_ = json.Unmarshal(v, &out)
		t.Errorf("in the guest: %v\n%s", err, out)
	}
}

func (g *fsGuest) host(t *testing.T, tag, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.shares[tag], name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFS shows a real guest kernel at work on shares. What an architecture could
// change, memory's order and the layout of requests, is in what onshare does.
func TestFS(t *testing.T) {
	type part struct {
		name string
		test func(*fsGuest, *testing.T)
	}
	first := []part{
		{"onshare work", func(g *fsGuest, t *testing.T) { g.onShare(t, "-share=/mnt/work") }},
		{"files", (*fsGuest).testFiles},
		{"owners", (*fsGuest).testOwners},
	}
	more := []part{
		{"onshare asker", func(g *fsGuest, t *testing.T) { g.onShare(t, "-share=/mnt/asker") }},
		{"host edits", (*fsGuest).testHostEdits},
		{"remount and reboot", (*fsGuest).testReboot},
	}
	for _, c := range []struct {
		arch  vm.Arch
		parts []part
	}{{vm.AMD64, slices.Concat(first, more)}, {vm.ARM64, first}} {
		t.Run(string(c.arch), func(t *testing.T) {
			g := startFS(t, c.arch)
			for _, part := range c.parts {
				t.Run(part.name, func(t *testing.T) { part.test(g, t) })
			}
		})
	}
}

func (g *fsGuest) testFiles(t *testing.T) {
	g.host(t, "work", "hello", "from the host")
	g.expect(t, "from the host", "read", "/mnt/work/hello")
	g.MustRun("write", "/mnt/work/new", "from", "the", "guest")
	if b, err := os.ReadFile(filepath.Join(g.shares["work"], "new")); string(b) != "from the guest" {
		t.Errorf("the host reads %q, %v", b, err)
	}
	g.MustRun("ln", "new", "/mnt/work/sym")
	g.MustRun("link", "/mnt/work/sym", "/mnt/work/hardsym") // a second name of the link itself
	g.expect(t, "from the guest", "read", "/mnt/work/hardsym")
	g.MustRun("openunlinked", "/mnt/work/unlinked")
}

// testHostEdits holds the rule: within a second under the subtree policy, at
// the next look under the asker policy. A busy host has another second.
func (g *fsGuest) testHostEdits(t *testing.T) {
	for tag, delay := range map[string]time.Duration{"work": 2 * time.Second, "asker": 10 * time.Millisecond} {
		p := "/mnt/" + tag + "/edited"
		g.expect(t, "no such file", "read", p) // which the guest remembers too
		for _, text := range []string{"one", "two", "three three"} {
			g.host(t, tag, "edited", text)
			time.Sleep(delay)
			g.expect(t, text, "read", p)
		}
		if err := os.Remove(filepath.Join(g.shares[tag], "edited")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay)
		g.expect(t, "no such file", "stat", p)
	}
}

func (g *fsGuest) testOwners(t *testing.T) {
	g.host(t, "work", "agents/alice/f", "x")
	const p = "/mnt/work/agents/alice/f"
	g.expect(t, "1000:1000", "stat", p)
	g.MustRun("as", 1000, "chmod", p, "600")
	g.expect(t, "permission denied", "as", 1001, "read", p)
	g.expect(t, "permission denied", "as", 1001, "write", "/mnt/work/agents/alice/g", "x")
	g.expect(t, "operation not permitted", "as", 1001, "chmod", p, "666")
	g.MustRun("as", 1000, "write", "/mnt/work/agents/alice/g", "mine")
	g.MustRun("as", 1000, "fchmodafter", p) // whatever others looked at meanwhile
	g.MustRun("chown", p, 1000)
	g.expect(t, "operation not permitted", "chown", p, 1001)
	g.expect(t, "0:0", "stat", "/mnt/work/agents")
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(g.shares["work"], "agents/alice/g"), &st); err != nil || int(st.Uid) != os.Getuid() {
		t.Errorf("on the host it belongs to %d, %v", st.Uid, err)
	}

	g.host(t, "asker", "f", "x")
	for _, uid := range []int{0, 1000, 1001, 0} {
		g.expect(t, fmt.Sprintf("%d:%d", uid, uid), "as", uid, "stat", "/mnt/asker/f")
		g.MustRun("as", uid, "chmod", "/mnt/asker/f", "600")
	}
}

func (g *fsGuest) testReboot(t *testing.T) {
	g.MustRun("umount", "/mnt/work")
	g.MustRun("mount", "work", "/mnt/work")
	g.expect(t, "1000:1000", "stat", "/mnt/work/agents/alice/f")
	_, _ = g.Run("reboot")
	g.mount()
	g.MustRun("stat", "/mnt/work") // the kernel sends FUSE_INIT in the background
	g.expect(t, "1000:1000", "stat", "/mnt/work/agents/alice/f")
}
