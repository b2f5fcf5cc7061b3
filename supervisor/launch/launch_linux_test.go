package launch_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guesttest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/vm"
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
		return func(t *testing.T) pack.Pack { return lab.ReleasePack(t, arch, false) }
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
			t.Run("Name and disk", func(t *testing.T) { testNameAndDisk(t, g) })
			if c.more != nil {
				c.more(t, g)
			}
			if err := g.Client.Shutdown(t.Context(), time.Second); err != nil {
				t.Errorf("ask the guest to power off: %v", err)
			}
			select {
			case <-g.Machine.Done():
			case <-time.After(patience):
				t.Error("the guest does not power off by itself")
			}
			if err := g.Shutdown(t.Context()); err != nil {
				t.Errorf("shut down: %v", err)
			}
		})
	}
}

const (
	hostname = "bedrock"
	// patience is more than a guest takes to power off, beside whatever else the host
	// is busy with.
	patience = 2 * time.Minute
	// dataSize is more than what the disk's template has.
	dataSize = 2 << 30
)

// testNameAndDisk: the guest has the name that it was given, and soon all of its
// disk.
func testNameAndDisk(t *testing.T, g *launch.Guest) {
	run := func(script string) string {
		var out bytes.Buffer
		exit, err := g.Client.Run(t.Context(), guest.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out, Timeout: time.Minute})
		if err != nil || exit.Status() != 0 {
			t.Fatalf("%s: %+v %v\n%s", script, exit, err, &out)
		}
		return out.String()
	}
	if got := run("cat /proc/sys/kernel/hostname /etc/hostname"); got != hostname+"\n"+hostname+"\n" {
		t.Errorf("its name is %q", got)
	}
	var size int64
	for deadline := time.Now().Add(time.Minute); size < dataSize*9/10; time.Sleep(100 * time.Millisecond) {
		var blocks, block int64
		if _, err := fmt.Sscan(run("stat -f -c '%b %S' /"), &blocks, &block); err != nil {
			t.Fatal(err)
		}
		if size = blocks * block; time.Now().After(deadline) {
			t.Fatalf("the root has room for %d bytes, its disk for %d", size, int64(dataSize))
		}
	}
}

// boot boots a pack with a data disk, a network and shares of each kind.
func boot(t *testing.T, p pack.Pack) *launch.Guest {
	t.Helper()
	image := lab.Image(t, p)
	data := filepath.Join(t.TempDir(), "data.ext4")
	if err := disk.Create(data, dataSize); err != nil {
		t.Fatal(err)
	}
	g, err := launch.Boot(t.Context(), launch.Spec{
		Driver: &qemu.Driver{}, Image: image, Name: "test", Hostname: hostname,
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
