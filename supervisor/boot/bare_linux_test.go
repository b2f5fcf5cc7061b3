package boot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/qemu"
)

// TestBareBoots boots machines with other disks and shares than a sandbox has.
func TestBareBoots(t *testing.T) {
	i := lab.Image(t, lab.BusyboxPack(t, "arm64"))
	failedBoots(t, i)
	t.Run("no data disk", func(t *testing.T) { testWithoutData(t, i) })
}

// failedBoots boots guests with damaged or missing parts. Each error names the problem and the fix.
func failedBoots(t *testing.T, i image.Image) {
	nothing := filepath.Join(t.TempDir(), "zeros")
	if err := os.WriteFile(nothing, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	base := vm.Disk{Path: i.Base, ReadOnly: true}
	for _, tc := range []struct {
		name   string
		disks  []vm.Disk
		mounts []*guestpb.Mount
		kind   fault.Kind
		text   string
		advice string
	}{
		{"a damaged base", []vm.Disk{{Path: nothing, ReadOnly: true}}, nil, fault.Execution, "mount base /dev/vda", "rebuild it"},
		{"a damaged data disk", []vm.Disk{base, {Path: nothing}}, nil, fault.Execution, "mount data /dev/vdb", "reset it"},
		{"a share that is not there", []vm.Disk{base}, []*guestpb.Mount{{Tag: "nowhere", Path: []byte("/mnt/nowhere")}}, fault.NotFound, "mount share nowhere", "no share with this tag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := connect(t, i, tc.disks, nil, &guestpb.Boot{Mounts: tc.mounts})
			if fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.text) || !strings.Contains(fault.AdviceOf(err), tc.advice) {
				t.Errorf("%s: %v (%s)", fault.KindOf(err), err, fault.AdviceOf(err))
			}
		})
	}
}

// testWithoutData boots a guest that writes to memory only.
func testWithoutData(t *testing.T, i image.Image) {
	gateway, nic, err := network.Open(*newNetwork(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(nic.Close(), gateway.Close()); err != nil {
			t.Error(err)
		}
	}()
	c, err := connect(t, i, []vm.Disk{{Path: i.Base, ReadOnly: true}}, nic, &guestpb.Boot{Network: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := boot.CheckNetwork(t.Context(), c.Info); err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.HasData || len(info.Warnings) > 0 {
		t.Errorf("%+v", info)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello guest\n")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	var out bytes.Buffer
	exit, err := c.Run(t.Context(), engine.Command{
		Args: []string{"sh", "-c", fmt.Sprintf("echo written > /root/f && cat /root/f /etc/resolv.conf && busybox nc 10.0.2.2 %s", port)}, Stdout: &out, Stderr: &out, Timeout: time.Minute,
	})
	if want := "written\nnameserver 10.0.2.2\nhello guest\n"; err != nil || exit.Status() != 0 || out.String() != want {
		t.Errorf("%+v %v\n%s", exit, err, &out)
	}
}

// connect starts a machine with these disks and boots its guest.
func connect(t *testing.T, i image.Image, disks []vm.Disk, nic *os.File, boot *guestpb.Boot) (*guest.Client, error) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "console.log")
	m, err := new(qemu.Driver).New(t.Context(), vm.Config{
		Name: "test", Arch: i.Arch, CPUs: 1, Memory: 512 << 20, Kernel: i.Kernel, Initrd: i.Initrd,
		Disks: disks, NIC: nic, ConsoleLog: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			said, _ := os.ReadFile(log)
			t.Logf("console:\n%s", said)
		}
	})
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := guest.Connect(t.Context(), m, boot)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}
