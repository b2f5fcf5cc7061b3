package boot_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guesttest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
)

// TestGuests runs the guest suite on an Alpine guest of the architecture that this host does
// not have. TestRooms runs it on this host's own.
func TestGuests(t *testing.T) {
	arch := vm.ARM64
	if vm.HostArch() == arch {
		arch = vm.AMD64
	}
	h := newHome(t, lab.Image(t, lab.ReleasePack(t, arch, false)), vm.OwnershipSubtree)
	h.boot(t)
	tryGuest(t, h, guesttest.Run)
	h.shutdown(t)
}

// tryGuest runs a suite on a guest that has just booted, and checks its name and disk.
func tryGuest(t *testing.T, h *home, suite func(*testing.T, guesttest.Connector)) {
	suite(t, func(*testing.T) *guest.Client { return h.guest.Client })
	t.Run("Name and disk", func(t *testing.T) { testNameAndDisk(t, h.guest) })
}

const (
	hostname = "bedrock"
	// patience is more than a guest takes to power off on a busy host.
	patience = 2 * time.Minute
	// dataSize is larger than the disk's template.
	dataSize = 2 << 30
)

// testNameAndDisk checks that the guest has its name, and soon all of its disk.
func testNameAndDisk(t *testing.T, g *boot.Guest) {
	run := func(script string) string {
		var out bytes.Buffer
		exit, err := g.Client.Run(t.Context(), engine.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out, Timeout: time.Minute})
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
