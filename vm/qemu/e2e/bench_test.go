package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/vm/qemu/fs"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestBench compares, in one guest, this module's virtiofs with the daemon named by VHOST_TEST_VIRTIOFSD.
func TestBench(t *testing.T) {
	daemon := os.Getenv("VHOST_TEST_VIRTIOFSD")
	if daemon == "" {
		t.Skip("VHOST_TEST_VIRTIOFSD is not set")
	}
	newFS := func(o fs.Options) *fs.Device {
		d, err := fs.New(t.TempDir(), o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const q = "vhost-user-fs-pci,queue-size=1024,tag="
	devices := []Device{
		{Backend: newFS(fs.Options{}), QEMU: q + "caller"},
		{Backend: newFS(fs.Options{AttrTimeout: time.Millisecond, CloseToOpen: true}), QEMU: q + "caller-1ms"},
		{Backend: newFS(fs.Options{AttrTimeout: time.Second, EntryTimeout: time.Second, Owner: &fuse.Owner{}}), QEMU: q + "cached"},
	}
	for _, cache := range []string{"auto", "none"} {
		sock := filepath.Join(t.TempDir(), "vfs")
		cmd := exec.Command(daemon, "--socket-path="+sock, "-o", "source="+t.TempDir(), "-o", "cache="+cache, "-o", "sandbox=chroot")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		for range 100 {
			if _, err := os.Stat(sock); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		devices = append(devices, Device{Socket: sock, QEMU: q + "daemon-" + cache})
	}
	vm := Start(t, Options{Devices: devices})
	for _, tag := range []string{"caller", "caller-1ms", "cached", "daemon-auto", "daemon-none"} {
		vm.MustRun("mount", tag, "/mnt/"+tag)
	}
	mib, files := 128.0, 10000.0
	if f, err := strconv.ParseFloat(os.Getenv("VHOST_TEST_BENCH_FILES"), 64); err == nil {
		files = f
	}
	for _, files := range []float64{100, files} { // again: warm up first
		for _, tag := range []string{"caller", "caller-1ms", "cached", "daemon-auto", "daemon-none"} {
			v, err := vm.Run("fsbench", "/mnt/"+tag, int(mib), int(files))
			var r map[string]float64
			_ = json.Unmarshal(v, &r)
			if err != nil {
				t.Errorf("%s: %v %v", tag, err, r)
				continue
			}
			t.Logf("%-12s write %5.0f MiB/s  read %5.0f MiB/s  4k O_DIRECT read %5.0f/s  create %6.0f/s  stat %6.0f/s  cold stat %6.0f/s  unlink %6.0f/s  readdir %.3fs",
				tag, mib/r["write"], mib/r["read"], 2000/r["randread4k"], files/r["create"], files/r["stat"], files/r["coldstat"], files/r["unlink"], r["readdir"])
		}
	}
}
