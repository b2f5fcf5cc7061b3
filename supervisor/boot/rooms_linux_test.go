package boot_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guesttest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/toolstest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/pack"
)

// TestRooms runs the suites of guests and rooms on each distribution, each with another
// ownership of shared files: isolation must not depend on either. Cases that depend on neither
// run on Debian only, where that runs.
func TestRooms(t *testing.T) {
	for _, c := range []struct {
		name      string
		pack      func(*testing.T) pack.Pack
		ownership vm.Ownership
		suite     func(*testing.T, guesttest.Connector)
		spared    bool
	}{
		{"Debian", func(t *testing.T) pack.Pack { return lab.DebianPackFor(t, native()) }, vm.OwnershipSubtree, guesttest.Run, false},
		{"Alpine", func(t *testing.T) pack.Pack { return lab.ReleasePack(t, native(), false) }, vm.OwnershipAsker, guesttest.RunBoot, !alpineOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pack(t)
			if p.Manifest.Arch != native() {
				t.Skip("the driver does not run guests of this architecture")
			}
			h := newHome(t, lab.Image(t, p), c.ownership)
			h.boot(t)
			t.Run("Guest", func(t *testing.T) {
				tryGuest(t, h, c.suite)
			})
			// Without an Alpine root file system, the lab uses busybox.
			whole := p.Manifest.Distribution != "alpine" || lab.AlpineRoot(t, string(p.Manifest.Arch)) != ""
			t.Run("Tools", func(t *testing.T) {
				if !whole {
					t.Skip("the stand-in has too few programs")
				}
				toolstest.Run(t, toolstest.New(t, toolstest.Options{
					Home: h.folder, Backend: toolstest.Adopted{Guest: h.guest}, Folders: &h.subtrees, Tokens: h.programs.Tokens,
				}), toolstest.Room, toolstest.Place(p.Manifest.Distribution))
			})
			t.Run("History", func(t *testing.T) {
				past(t, toolstest.New(t, toolstest.Options{
					Home: h.folder, Backend: toolstest.Adopted{Guest: h.guest}, Folders: &h.subtrees, Tokens: h.programs.Tokens,
				}))
			})
			// The suite of rooms counts them. A daemon that runs would make them again.
			for _, user := range []config.LinuxUser{"agent-ada", "agent-eve"} {
				if err := h.guest.Client.RemoveRoom(t.Context(), user, true); err != nil {
					t.Error(err)
				}
			}
			guesttest.RunRooms(t, &guesttest.Suite{
				Client: h.guest.Client, Workspace: h.workspace, Chown: h.own, NewToken: h.mint, Intruder: intruder(t, p.Manifest.Arch), Server: greeterAt().String(), ServerName: fmt.Sprintf("%s:%d", greeterName, greeterAt().Port()),
				Join: func(user config.LinuxUser) netip.Addr { return h.join(t, user) }, DistributionOnly: c.spared, Serve: served,
				Restart: func(t *testing.T) *guest.Client {
					h.shutdown(t)
					h.boot(t)
					return h.guest.Client
				},
			})
			t.Run("Installs", func(t *testing.T) {
				if !whole {
					t.Skip("the stand-in has no package manager")
				}
				installs(t, h, c.name)
			})
			if c.name == "Debian" { // it has curl and jq
				t.Run("OthersShim", func(t *testing.T) { othersShim(t, h) })
			}
		})
	}
}

// served serves a folder to mount in a room.
func served(t *testing.T, folder string, readOnly bool, uid uint32) func(context.Context, io.ReadWriteCloser) error {
	t.Helper()
	s, err := fs.New(vm.Share{Path: folder, ReadOnly: readOnly}, fs.Options{UID: uid, Lower: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Serve
}

// home has the state that outlives a guest.
type home struct {
	folder          config.Home
	driver          vm.Driver
	image           image.Image
	data, workspace string
	ownership       vm.Ownership
	subtrees        vm.Subtrees
	programs        *bridgetest.Bridge
	network         *network.Options
	guest           *boot.Guest
}

func newHome(t testing.TB, i image.Image, ownership vm.Ownership) *home {
	t.Helper()
	folder := config.Home(t.TempDir())
	h := &home{folder: folder, driver: lab.Driver(driver()), image: i, data: filepath.Join(t.TempDir(), "data.ext4"), workspace: folder.Workspace(), ownership: supported(t, ownership), network: newNetwork(t)}
	h.programs = bridgetest.New(t, func(o *bridge.Options) {
		o.Services.Config, o.Services.Plugins = whoami{o.Services.Config}, installed{o.Services.Plugins}
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	})
	if err := disk.Create(h.data, dataSize); err != nil {
		t.Fatal(err)
	}
	can, err := driver().Capabilities(t.Context(), native())
	if err != nil {
		t.Fatal(err)
	}
	if err := boot.MakeFolders(folder, can); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h.guest != nil {
			h.guest.Close()
		}
		if err := h.programs.Server.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// supported returns an ownership of shares, or the driver's default if it has no such one.
func supported(t testing.TB, o vm.Ownership) vm.Ownership {
	t.Helper()
	caps, err := driver().Capabilities(t.Context(), native())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(caps.Ownership, o) {
		return o
	}
	return caps.Ownership[0]
}

func (h *home) own(folder string, uid uint32) {
	if err := h.subtrees.Set(vm.Subtree{Path: folder, UID: uid, GID: uid}); err != nil {
		panic(err) // the suite's own names
	}
}

func (h *home) mint(user config.LinuxUser, uid uint32) string {
	return string(h.programs.Tokens.Mint(bridge.Holder{Agent: tester, Name: "tester", User: user, UID: uid}))
}

// tester is the agent of all users of the tests.
const tester config.AgentID = "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"

// installed gives every agent the plugins of the suite.
type installed struct{ bridge.Plugins }

func (installed) Installed(_ config.AgentID, plugin config.PluginID) bool {
	return plugin == "rss" || plugin == "mail"
}

// whoami returns the caller's user and plugin under the keys "who" and "plugin".
type whoami struct{ bridge.Config }

func (w whoami) Get(ctx context.Context, who bridge.Caller, key bridge.ConfigKey) (string, error) {
	switch key {
	case "who":
		return string(who.User), nil
	case "plugin":
		return string(who.Plugin), nil
	}
	return w.Config.Get(ctx, who, key)
}

// boot boots the guest with a data disk, a network and shares of each kind.
func (h *home) boot(t testing.TB) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "console.log")
	t.Cleanup(func() {
		b, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(b), "read-only: ") {
			t.Error("the guest did not leave its disks clean")
		}
		if err == nil && t.Failed() {
			t.Logf("the console: %s", b)
		}
	})
	g, err := boot.Boot(context.Background(), boot.Spec{
		Driver: h.driver, Image: h.image, Hostname: hostname, Network: h.network, Bridge: h.programs.Server,
		Config: vm.Config{Name: "rooms", CPUs: 2, Memory: 2 << 30, Disks: []vm.Disk{{Path: h.data}}, ConsoleLog: log, Shares: []vm.Share{
			{Tag: "workspace", Path: h.workspace, Ownership: h.ownership, Subtrees: &h.subtrees},
			{Tag: "shared", Path: h.folder.SharedFolder(), Ownership: supported(t, vm.OwnershipEverybody)},
			{Tag: "output", Path: t.TempDir(), Ownership: supported(t, vm.OwnershipEverybody)},
			{Tag: "input", Path: t.TempDir(), ReadOnly: true},
		}},
		MountPoints: map[string]string{"workspace": "/workspace", "shared": guest.SharedDir, "output": "/output"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.guest = g
}

// shutdown fails the test unless the guest powers off by itself.
func (h *home) shutdown(t *testing.T) {
	t.Helper()
	if err := h.guest.Client.Shutdown(t.Context(), time.Second); err != nil {
		t.Errorf("ask the guest to power off: %v", err)
	}
	select {
	case <-h.guest.Machine.Done():
	case <-time.After(patience):
		t.Error("the guest does not power off by itself")
	}
	if err := h.guest.Shutdown(t.Context()); err != nil {
		t.Fatalf("shut down: %v", err)
	}
}

// intruder builds the program that attacks.
func intruder(t testing.TB, arch vm.Arch) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "intruder")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "osaurus-sandbox/guest/guesttest/intruder")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+string(arch))
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
