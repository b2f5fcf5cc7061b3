//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
)

// fsGuest is a guest with several shares.
type fsGuest struct {
	*vmtest.Guest
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
	cfg := vmtest.BuildImage(t, arch).Config(t)
	cfg.Shares = []vm.Share{
		{Tag: "asker", Ownership: vm.OwnershipAsker},
		{Tag: "tools", ReadOnly: true},
		{Tag: "work", Subtrees: set},
	}
	shares := map[string]string{}
	for i := range cfg.Shares {
		share := &cfg.Shares[i]
		share.Path = t.TempDir()
		if err := os.Chmod(share.Path, 0o755); err != nil {
			t.Fatal(err)
		}
		shares[share.Tag] = share.Path
	}
	for _, home := range []string{"agents/alice", "agents/bob"} {
		if err := os.MkdirAll(filepath.Join(shares["work"], home), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "test", "-c", "-trimpath", "-o", filepath.Join(shares["tools"], "onshare"), "osaurus-sandbox/vm/qemu/e2e/onshare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+string(arch))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := &fsGuest{vmtest.Boot(t, &qemu.Driver{}, cfg), shares}
	for tag := range shares {
		g.Must("mount", tag, "/mnt/"+tag)
	}
	return g
}

// expect runs a command whose answer or error must contain want.
func (g *fsGuest) expect(t *testing.T, want string, words ...any) {
	t.Helper()
	got, err := g.Call(words...)
	if err != nil {
		got += err.Error()
	}
	if !strings.Contains(got, want) {
		t.Errorf("%v: %q, want %q", words, got, want)
	}
}

// onShare runs the test binary in the guest.
func (g *fsGuest) onShare(t *testing.T, tag string) {
	if out, err := g.Call("exec", "/mnt/tools/onshare", "-test.timeout=5m", "-share=/mnt/"+tag); err != nil {
		t.Errorf("in the guest: %v\n%s", err, out)
	}
}

func (g *fsGuest) host(t *testing.T, tag, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.shares[tag], name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFS uses shares from a real guest kernel. onshare covers what can differ between
// architectures: the order of memory accesses and the layout of requests.
func TestFS(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		t.Run(string(arch), func(t *testing.T) {
			g := startFS(t, arch)
			t.Run("onshare work", func(t *testing.T) { g.onShare(t, "work") })
			t.Run("owners", g.testOwners)
			if arch == vm.AMD64 {
				t.Run("onshare asker", func(t *testing.T) { g.onShare(t, "asker") })
				t.Run("host edits", g.testHostEdits)
			}
			t.Run("remount", func(t *testing.T) {
				g.Must("umount", "/mnt/work")
				g.Must("mount", "work", "/mnt/work")
				g.expect(t, "1000:1000", "stat", "/mnt/work/agents/alice/f")
			})
		})
	}
}

// testHostEdits checks that the host's changes are seen within a second under the subtree
// policy, and at the next look-up under the asker policy. A busy host has another second.
func (g *fsGuest) testHostEdits(t *testing.T) {
	for tag, delay := range map[string]time.Duration{"work": 2 * time.Second, "asker": 10 * time.Millisecond} {
		p := "/mnt/" + tag + "/edited"
		g.expect(t, "no such file", "read", p) // the guest caches this, too
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
	g.Must("as", 1000, "chmod", p, "600")
	g.expect(t, "permission denied", "as", 1001, "read", p)
	g.expect(t, "permission denied", "as", 1001, "write", "/mnt/work/agents/alice/g", "x")
	g.expect(t, "operation not permitted", "as", 1001, "chmod", p, "666")
	g.Must("as", 1000, "write", "/mnt/work/agents/alice/g", "mine")
	g.Must("as", 1000, "fchmodafter", p) // although others look at the file meanwhile
	g.Must("chown", p, 1000)
	g.expect(t, "operation not permitted", "chown", p, 1001)
	g.expect(t, "0:0", "stat", "/mnt/work/agents")
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(g.shares["work"], "agents/alice/g"), &st); err != nil || int(st.Uid) != os.Getuid() {
		t.Errorf("on the host it belongs to %d, %v", st.Uid, err)
	}

	g.host(t, "asker", "f", "x")
	for _, uid := range []int{0, 1000, 1001, 0} {
		g.expect(t, fmt.Sprintf("%d:%d", uid, uid), "as", uid, "stat", "/mnt/asker/f")
		g.Must("as", uid, "chmod", "/mnt/asker/f", "600")
	}
}
