//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vsock"
)

// modules of the guest, in load order.
var modules = []string{
	"virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
	"failover", "net_failover", "virtio_net",
	"fuse", "virtiofs",
	"vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport",
}

// VM is a running machine.
type VM struct {
	Vsock   *vsock.Device
	Cmd     *exec.Cmd
	Console *Console
	Servers []*Server
	t       testing.TB
	dir     string
	exited  chan struct{}
}

// Server is one vhost-user back end in this process.
type Server struct {
	Stop context.CancelFunc
	Done chan struct{}
	Err  error // after Done
}

// Console collects the machine's serial output.
type Console struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(p)
}

func (c *Console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// Device is a vhost-user device to attach.
type Device struct {
	Backend vhostuser.Device // served here; nil: Socket is someone else's
	Socket  string
	QEMU    string // -device argument, without chardev
}

// Options are the optional parts of a machine.
type Options struct {
	Devices []Device
	Args    []string
	Trace   bool // log the vhost-user messages
	Paths   bool // use socket paths rather than inherited socket pairs
}

// Arch is the guest's architecture.
func Arch() string {
	if a := os.Getenv("VHOST_TEST_ARCH"); a != "" {
		return a
	}
	return "amd64"
}

// Start boots a machine, or skips the test if there is no kernel.
func Start(t testing.TB, o Options) *VM {
	t.Helper()
	k := lab.DebianKernel(t, Arch())
	kernel, mods := k.Image, k.Modules
	vm := &VM{t: t, dir: t.TempDir(), Vsock: vsock.New(3), Console: &Console{}, exited: make(chan struct{})}
	initrd, err := buildInitrd(vm.dir, mods)
	if err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	if Arch() == "arm64" {
		cmd = exec.Command("qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57", "-append", "console=ttyAMA0 panic=-1")
	} else {
		cmd = exec.Command("qemu-system-x86_64", "-append", "console=ttyS0 panic=-1")
	}
	cmd.Args = append(cmd.Args, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1G",
		"-object", "memory-backend-memfd,id=mem,size=1G,share=on", "-numa", "node,memdev=mem",
		"-nodefaults", "-display", "none", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd)
	devices := append([]Device{{Backend: vm.Vsock, QEMU: "vhost-user-vsock-pci"}}, o.Devices...)
	var handles []*os.File
	for i, d := range devices {
		chardev := fmt.Sprintf("socket,id=vu%d,", i)
		switch {
		case d.Backend == nil:
			chardev += "path=" + d.Socket
		case o.Paths:
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(vm.dir, fmt.Sprintf("vu%d", i)), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			chardev += "path=" + l.Addr().String()
			vm.serve(d.Backend, o.Trace, func() (*net.UnixConn, error) { defer l.Close(); return l.AcceptUnix() })
		default:
			// No name in the file system, and no one else can connect.
			conn, peer, err := socketPair()
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, peer)
			cmd.ExtraFiles = append(cmd.ExtraFiles, peer)
			chardev += fmt.Sprintf("fd=%d", 2+len(cmd.ExtraFiles))
			vm.serve(d.Backend, o.Trace, func() (*net.UnixConn, error) { return conn, nil })
		}
		cmd.Args = append(cmd.Args, "-chardev", chardev, "-device", fmt.Sprintf("%s,chardev=vu%d", d.QEMU, i))
	}
	cmd.Args = append(cmd.Args, o.Args...)
	cmd.Stdout, cmd.Stderr = vm.Console, vm.Console
	// Not to outlive a test that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range handles {
		f.Close()
	}
	vm.Cmd = cmd
	go func() { _ = cmd.Wait(); close(vm.exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-vm.exited
		for _, s := range vm.Servers {
			<-s.Done
			if s.Err != nil {
				t.Errorf("vhost-user server: %v", s.Err)
			}
		}
		if t.Failed() {
			t.Logf("console:\n%s", vm.Console)
		}
	})
	return vm
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "vhost-user")
	defer f.Close()
	peer := os.NewFile(uintptr(fds[1]), "vhost-user-peer")
	c, err := net.FileConn(f)
	if err != nil {
		peer.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), peer, nil
}

func (vm *VM) serve(dev vhostuser.Device, trace bool, accept func() (*net.UnixConn, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{Stop: cancel, Done: make(chan struct{})}
	vm.Servers = append(vm.Servers, s)
	go func() {
		defer close(s.Done)
		conn, err := accept()
		if err != nil {
			s.Err = err
			return
		}
		s.Err = vhostuser.Serve(ctx, conn, dev, vhostuser.Options{Log: slog.New(slog.NewTextHandler(vm.Console, nil)), Trace: trace})
	}()
}

// Exited is closed when QEMU has ended.
func (vm *VM) Exited() <-chan struct{} { return vm.exited }

// Dial connects to a port of the guest, waiting until something listens.
func (vm *VM) Dial(port uint32) net.Conn {
	vm.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		c, err := vm.Vsock.Dial(ctx, port)
		cancel()
		if err == nil {
			return c
		}
		select {
		case <-vm.exited:
			vm.t.Fatalf("QEMU exited: %v\n%s", vm.Cmd.ProcessState, vm.Console)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			vm.t.Fatalf("dial: %v\n%s", err, vm.Console)
		}
	}
}

// Run runs a command of the guest program.
func (vm *VM) Run(words ...any) (json.RawMessage, error) {
	c := vm.Dial(1024)
	defer c.Close()
	if _, err := fmt.Fprintln(c, words...); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var r struct {
		V   json.RawMessage
		Err string
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	if r.Err != "" {
		return r.V, errors.New(r.Err)
	}
	return r.V, nil
}

// MustRun is Run for commands that answer with a string.
func (vm *VM) MustRun(words ...any) string {
	vm.t.Helper()
	v, err := vm.Run(words...)
	if err != nil {
		vm.t.Fatalf("%v: %v %s", words, err, v)
	}
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

// buildInitrd makes an initramfs of the guest program and its modules.
func buildInitrd(dir, mods string) (string, error) {
	bin := filepath.Join(dir, "guest")
	cmd := exec.Command("go", "build", "-o", bin, "osaurus-sandbox/vm/vmtest/testguest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+Arch())
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build guest: %w\n%s", err, out)
	}
	found := map[string]string{}
	err := filepath.WalkDir(mods, func(p string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(p), ".ko"); ok {
			found[strings.ReplaceAll(name, "-", "_")] = p
		}
		return err
	})
	if err != nil {
		return "", err
	}
	var w cpio
	for _, d := range []string{"dev", "proc", "sys", "tmp", "mod", "mnt"} {
		w.add(d, 0o40755, 0, 0, nil)
	}
	w.add("dev/console", 0o20600, 5, 1, nil)
	w.add("dev/null", 0o20666, 1, 3, nil)
	prog, err := os.ReadFile(bin)
	if err != nil {
		return "", err
	}
	w.add("init", 0o100755, 0, 0, prog)
	for _, m := range modules {
		b, err := os.ReadFile(found[m])
		if err != nil {
			return "", fmt.Errorf("module %s: %w", m, err)
		}
		w.add("mod/"+m, 0o100644, 0, 0, b)
	}
	w.add("mod/order", 0o100644, 0, 0, []byte(strings.Join(modules, "\n")))
	w.add("TRAILER!!!", 0, 0, 0, nil)
	out := filepath.Join(dir, "initrd")
	return out, os.WriteFile(out, w.b.Bytes(), 0o600)
}

// cpio writes the "newc" format, which the kernel unpacks.
type cpio struct {
	b   bytes.Buffer
	ino int
}

func (w *cpio) add(name string, mode, major, minor int, data []byte) {
	w.ino++
	fmt.Fprintf(&w.b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", w.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	w.b.WriteString(name + "\x00")
	w.pad()
	w.b.Write(data)
	w.pad()
}

func (w *cpio) pad() {
	for w.b.Len()%4 != 0 {
		w.b.WriteByte(0)
	}
}

var _ io.Writer = (*Console)(nil)
