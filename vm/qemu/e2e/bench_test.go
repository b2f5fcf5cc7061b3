package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/vm/qemu/fs"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestBench compares, in one guest, vsock with TCP over QEMU's user network,
// and this module's virtiofs with the daemon named by VHOST_TEST_VIRTIOFSD.
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
	port := func() int {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port
	}
	ports := map[uint32]int{portEcho: port(), portSink: port(), portSource: port()}
	netdev := "user,id=net0,restrict=on"
	for g, h := range ports {
		netdev += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", h, g)
	}
	vm := Start(t, Options{Devices: devices, Args: []string{"-netdev", netdev, "-device", "virtio-net-pci,netdev=net0,romfile="}})
	t.Logf("guest: %s", vm.MustRun("uname"))
	dialers := []struct {
		name string
		dial func(port uint32) net.Conn
	}{
		{"vsock", vm.Dial},
		{"tcp", func(p uint32) net.Conn {
			c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[p]))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}},
	}
	for range 4 { // the first round warms TCG's translation cache
		for _, d := range dialers {
			lat := latency(t, d.dial(portEcho))
			in := toGuest(t, d.dial(portSink))
			out := fromGuest(t, d.dial(portSource))
			start := time.Now()
			const n = 100
			for range n {
				c := d.dial(portEcho)
				_, _ = c.Write([]byte{1})
				_, _ = io.ReadFull(c, make([]byte, 1))
				c.Close()
			}
			t.Logf("%-6s round trip p50 %7.1fµs p99 %7.1fµs   to guest %6.0f MiB/s   from guest %6.0f MiB/s   dial+1 byte+close %6.0fµs",
				d.name, us(lat[len(lat)/2]), us(lat[len(lat)*99/100]), in, out, us(time.Since(start)/n))
		}
	}
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

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func latency(t *testing.T, c net.Conn) []time.Duration {
	defer c.Close()
	lat := make([]time.Duration, 3000)
	b := make([]byte, 1)
	for i := range lat {
		start := time.Now()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		lat[i] = time.Since(start)
	}
	slices.Sort(lat)
	return lat
}

const streamMiB = 128

func toGuest(t *testing.T, c net.Conn) float64 {
	defer c.Close()
	b := make([]byte, 256<<10)
	start := time.Now()
	for range streamMiB * 4 {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.(halfCloser).CloseWrite()
	var n int64
	if err := binary.Read(c, binary.LittleEndian, &n); err != nil || n != streamMiB<<20 {
		t.Fatalf("guest got %d, %v", n, err)
	}
	return streamMiB / time.Since(start).Seconds()
}

func fromGuest(t *testing.T, c net.Conn) float64 {
	defer c.Close()
	start := time.Now()
	if err := binary.Write(c, binary.LittleEndian, int64(streamMiB<<20)); err != nil {
		t.Fatal(err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, 256<<10))
	if err != nil || n != streamMiB<<20 {
		t.Fatalf("got %d, %v", n, err)
	}
	return streamMiB / time.Since(start).Seconds()
}
