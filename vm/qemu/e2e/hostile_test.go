//go:build linux

package e2e

import (
	"fmt"
	"io"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
	"osaurus-sandbox/vm/vmtest/guestport"
)

// Limits for the growth of an attacked host: a guest's share of windows and the runtime's
// slack, which is much less than the guest sends.
const (
	mayGrowGoroutines = 50
	mayGrowBytes      = 100 << 20

	netprobe = 99 // the size of the guest's last frame
)

// TestHostileGuest boots a program that writes garbage into the queues of a share and of the vsock
// device, then resets the vsock device and uses it properly. The host must not panic, hang, grow or
// touch a file outside the share, and the vsock device must work again.
func TestHostileGuest(t *testing.T) {
	top := t.TempDir()
	share, outside := filepath.Join(top, "share"), filepath.Join(top, "outside")
	for _, dir := range []string{share, outside, filepath.Join(outside, "folder")} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("untouched"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside", filepath.Join(share, "escape")); err != nil {
		t.Fatal(err)
	}
	before := canary(t, top, share)

	goroutines, memory := runtime.NumGoroutine(), resident(t)
	cfg := vmtest.ProgramImage(t, vm.AMD64, "osaurus-sandbox/vm/qemu/e2e/hostile").Config(t)
	cfg.KernelArgs = []string{"console=ttyS0"} // there is no driver for the virtio console
	cfg.Shares = []vm.Share{{Tag: "work", Path: share}}
	var frames *net.UnixConn
	frames, cfg.NIC = vmtest.NewWire(t)
	m := vmtest.New(t, &qemu.Driver{}, cfg)
	l, err := m.Listen(guestport.RelayBack)
	if err != nil {
		t.Fatal(err)
	}
	var attacks atomic.Int64
	alive := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 5)
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(c, b); err == nil && string(b) == "alive" {
					alive <- struct{}{}
					return
				}
				attacks.Add(1)
				_ = c.SetDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
			}()
		}
	}()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sizes, last := map[int]int{}, 0
	for b := make([]byte, 64<<10); last != netprobe; sizes[last]++ {
		if err := frames.SetReadDeadline(time.Now().Add(vmtest.BootTimeout)); err != nil {
			t.Fatal(err)
		}
		if last, err = frames.Read(b); err != nil {
			t.Fatalf("the last frame does not arrive after %v: %v", sizes, err)
		}
	}
	for _, size := range []int{1, 13, 4000} {
		if sizes[size] != 1 {
			t.Errorf("%d frames of %d bytes arrived", sizes[size], size)
		}
	}
	select {
	case <-alive:
	case <-m.Done():
		select {
		case <-alive: // just before
		case <-time.After(time.Minute):
			t.Fatalf("the machine ended before the guest had done: %v", m.Err())
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the guest does not finish")
	}
	select {
	case <-m.Done():
	case <-time.After(time.Minute):
		t.Error("the machine does not end")
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine()-goroutines > mayGrowGoroutines; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines more than before", runtime.NumGoroutine()-goroutines)
		}
	}
	if n := resident(t) - memory; n > mayGrowBytes {
		t.Errorf("%d MiB more than before", n>>20)
	}
	if after := canary(t, top, share); after != before {
		t.Errorf("outside of the share there was\n%s\nand now is\n%s", before, after)
	}
	// Most of the attack reached the devices.
	console, err := os.ReadFile(cfg.ConsoleLog)
	if err != nil {
		t.Fatal(err)
	}
	answers := regexp.MustCompile(`device of type (\d+) answered (\d+) requests`).FindAllStringSubmatch(string(console), -1)
	if len(answers) != 2 {
		t.Errorf("the guest attacked %d devices", len(answers))
	}
	for _, a := range answers {
		if n, _ := strconv.Atoi(a[2]); n < 100 {
			t.Errorf("the device of type %s answered only %d requests: the test misses its aim", a[1], n)
		}
	}
	if attacks.Load() == 0 {
		t.Error("no connection was made: the test misses its aim")
	}
	t.Logf("%v; %d connections; frames by size: %v", answers, attacks.Load(), sizes)
}

// canary describes all files in a folder except those in the share.
func canary(t *testing.T, top, share string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(top, func(path string, e iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == share {
			return iofs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			fmt.Fprintf(&b, "%s\n", text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// resident returns this process's resident memory without the guest's memory, which is mapped here.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kib := regexp.MustCompile(`RssAnon:\s+(\d+)`).FindSubmatch(status)
	n, err := strconv.Atoi(string(kib[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
