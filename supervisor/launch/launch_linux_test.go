package launch_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/guest/guesttest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/qemu"
)

// TestGuests boots what must boot. The guest suite runs whole on one of each
// distribution and architecture; what another kernel image or archive changes
// shows in the part of it that is about booting.
func TestGuests(t *testing.T) {
	debianPack := func(t *testing.T) pack.Pack { return lab.DebianPack(t) }
	alpinePack := func(arch vm.Arch) func(*testing.T) pack.Pack {
		return func(t *testing.T) pack.Pack {
			if p, ok := lab.AlpinePack(t, string(arch)); ok {
				return p
			}
			return lab.BusyboxPack(t, string(arch)) // the lab has said so, loudly
		}
	}
	isoPack := func(arch vm.Arch) func(*testing.T) pack.Pack {
		return func(t *testing.T) pack.Pack { return releasePack(t, arch) }
	}
	for _, c := range []struct {
		name  string
		pack  func(*testing.T) pack.Pack
		suite func(*testing.T, guesttest.Connector)
		more  func(*testing.T, *launch.Guest)
	}{
		{"Debian", debianPack, guesttest.Run, testSocat},
		{"Alpine amd64", alpinePack(vm.AMD64), guesttest.RunBoot, nil},
		{"Alpine arm64", alpinePack(vm.ARM64), guesttest.Run, nil},
		{"Alpine release amd64", isoPack(vm.AMD64), guesttest.RunBoot, nil},
		{"Alpine release arm64", isoPack(vm.ARM64), guesttest.RunBoot, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := boot(t, c.pack(t))
			c.suite(t, func(*testing.T) *guest.Client { return g.Client })
			if c.more != nil {
				c.more(t, g)
			}
			began := time.Now()
			if err := g.Shutdown(t.Context()); err != nil {
				t.Errorf("shut down: %v", err)
			}
			// Otherwise it was the power button, or the cable.
			if took := time.Since(began); took >= vm.ButtonGrace {
				t.Errorf("the guest took %v to power off: it did not do so by itself", took)
			}
		})
	}
}

// releasePack is made as a pack of Alpine's own releases is.
func releasePack(t *testing.T, arch vm.Arch) pack.Pack {
	t.Helper()
	pins, client := lab.AlpineRelease(t, arch)
	p, err := pack.Store{Dir: t.TempDir()}.Build(t.Context(), pins.Name(), nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		return alpine.Build(ctx, pins, client, dir, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// boot boots a pack with a data disk, a network and shares of each kind.
func boot(t *testing.T, p pack.Pack) *launch.Guest {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data.ext4")
	if err := disk.Create(data, 2<<30); err != nil {
		t.Fatal(err)
	}
	g, err := launch.Boot(t.Context(), launch.Spec{
		Driver: &qemu.Driver{}, Image: build(t, p), Name: "test", Hostname: "test",
		CPUs: 2, Memory: 1 << 30, DataDisk: data, Network: vm.NetworkNAT,
		Shares: []launch.Share{
			{Share: vm.Share{Tag: "workspace", Path: t.TempDir(), Ownership: vm.OwnershipSubtree}, MountPoint: "/workspace"},
			{Share: vm.Share{Tag: "output", Path: t.TempDir(), Ownership: vm.OwnershipAsker}, MountPoint: "/output"},
			{Share: vm.Share{Tag: "input", Path: t.TempDir(), ReadOnly: true}, MountPoint: "/mnt/input"},
		},
		ConsoleLog: filepath.Join(t.TempDir(), "console.log"), StateDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	info, err := g.Client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %v", g.Timings, info.Steps)
	return g
}

func build(t testing.TB, p pack.Pack) image.Image {
	t.Helper()
	store := image.Store{Dir: t.TempDir(), Init: func(a vm.Arch) ([]byte, error) { return embedded.Guest(string(a)) }}
	i, err := store.Ensure(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}
