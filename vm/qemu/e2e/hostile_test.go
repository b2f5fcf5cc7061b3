//go:build linux

package e2e

import (
	"fmt"
	"io"
	iofs "io/fs"
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
	"osaurus-sandbox/vm/qemu/fs"
	"osaurus-sandbox/vm/qemu/vsock"
	"osaurus-sandbox/vm/vmtest/guestport"
)

// What a host that was attacked for some seconds may have grown by: a guest's
// share of windows and the runtime's slack, far from what was thrown at it.
const (
	mayGrowGoroutines = 50
	mayGrowBytes      = 100 << 20
)

// TestHostileGuest boots a program that writes garbage into the queues of a
// vsock device and a share, and then uses a second vsock device as it should
// be used. The host must neither panic, hang, grow nor touch a file outside of
// the share, and the device that was left alone must work.
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

	files, err := fs.New(vm.Share{Tag: "work", Path: share}, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	attacked := vsock.New(4)
	defer attacked.Close()
	var accepted atomic.Int64
	l, err := attacked.Listen(guestport.RelayBack)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
			}()
		}
	}()

	goroutines, memory := runtime.NumGoroutine(), resident(t)
	m := Start(t, Options{Init: "osaurus-sandbox/vm/qemu/e2e/hostile", Devices: []Device{
		{Backend: attacked, QEMU: "vhost-user-vsock-pci"},
		{Backend: files, QEMU: "vhost-user-fs-pci,queue-size=128,tag=work"},
	}})
	spared, err := m.Vsock.Listen(guestport.RelayBack)
	if err != nil {
		t.Fatal(err)
	}
	alive := make(chan string, 1)
	go func() {
		defer close(alive)
		c, err := spared.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 5)
		_ = c.SetDeadline(time.Now().Add(time.Minute)) // it comes with the connection
		n, _ := io.ReadFull(c, b)
		alive <- string(b[:n])
	}()
	select {
	case got := <-alive:
		if got != "alive" {
			t.Errorf("the device that was left alone got %q", got)
		}
	case <-m.Exited():
		t.Fatalf("QEMU ended before the guest had done: %v", m.Cmd.ProcessState)
	case <-time.After(3 * time.Minute):
		t.Fatal("the guest does not finish")
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
	// The attack was not stopped at the door: devices served some of it.
	answers := regexp.MustCompile(`device of type (\d+) answered (\d+) requests`).FindAllStringSubmatch(m.Console.String(), -1)
	if len(answers) != 2 {
		t.Errorf("the guest attacked %d devices", len(answers))
	}
	for _, a := range answers {
		if n, _ := strconv.Atoi(a[2]); n < 100 {
			t.Errorf("the device of type %s answered only %d requests: the test misses its aim", a[1], n)
		}
	}
	if accepted.Load() == 0 {
		t.Error("no connection was made: the test misses its aim")
	}
	t.Logf("%v; %d connections", answers, accepted.Load())
}

// canary describes all that is under a folder but for the share in it.
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

// resident is the memory of this process that is in use and not shared with a
// guest, whose own memory is mapped here.
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
