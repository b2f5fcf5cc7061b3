//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/qemu/qmp"
	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vsock"
	"osaurus-sandbox/vm/vmtest"
)

// VM is a running machine.
type VM struct {
	Vsock   *vsock.Device
	Cmd     *exec.Cmd
	Console *Console
	Servers []*Server
	QMP     *qmp.Client
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
	Paths   bool    // use socket paths rather than inherited socket pairs
	Memory  string  // default "1G"
	Init    string  // the package of the guest's only program; default: the test guest
	Arch    vm.Arch // default: Arch()
}

// accelerator is the one that works everywhere, so that all hosts measure and
// test the same.
const accelerator = qemu.TCG

// Arch is the architecture of guests that are not there for another one's sake.
func Arch() vm.Arch {
	if a := os.Getenv("OSAURUS_TEST_ARCH"); a != "" {
		return vm.Arch(a)
	}
	return vm.AMD64
}

// Start boots a machine, which ends with the test.
func Start(t testing.TB, o Options) *VM {
	t.Helper()
	m := &VM{t: t, dir: t.TempDir(), Vsock: vsock.New(3), Console: &Console{}, exited: make(chan struct{})}
	o.Arch, o.Memory = cmp.Or(o.Arch, Arch()), cmp.Or(o.Memory, "1G")
	var kernel, initramfs string
	if o.Init == "" {
		image := vmtest.BuildImage(t, o.Arch)
		kernel, initramfs = image.Kernel, image.Initrd
	} else {
		kernel, initramfs = lab.DebianKernel(t, string(o.Arch)).Image, initrd(t, o.Init, o.Arch)
	}
	var cmd *exec.Cmd
	if o.Arch == vm.ARM64 {
		cmd = exec.Command("qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57", "-append", "console=ttyAMA0 panic=-1")
	} else {
		cmd = exec.Command("qemu-system-x86_64", "-append", "console=ttyS0 panic=-1")
	}
	cmd.Args = append(cmd.Args, "-accel", accelerator+",thread=multi", "-smp", "2", "-m", o.Memory,
		"-object", "memory-backend-memfd,id=mem,share=on,size="+o.Memory, "-numa", "node,memdev=mem",
		"-nodefaults", "-display", "none", "-serial", "stdio", "-kernel", kernel, "-initrd", initramfs)
	devices := append([]Device{{Backend: m.Vsock, QEMU: "vhost-user-vsock-pci"}}, o.Devices...)
	var handles []*os.File
	for i, d := range devices {
		chardev := fmt.Sprintf("socket,id=vu%d,", i)
		switch {
		case d.Backend == nil:
			chardev += "path=" + d.Socket
		case o.Paths:
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(m.dir, fmt.Sprintf("vu%d", i)), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			chardev += "path=" + l.Addr().String()
			m.serve(d.Backend, func() (*net.UnixConn, error) { defer l.Close(); return l.AcceptUnix() })
		default:
			// No name in the file system, and no one else can connect.
			conn, peer, err := socketPair()
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, peer)
			cmd.ExtraFiles = append(cmd.ExtraFiles, peer)
			chardev += fmt.Sprintf("fd=%d", 2+len(cmd.ExtraFiles))
			m.serve(d.Backend, func() (*net.UnixConn, error) { return conn, nil })
		}
		cmd.Args = append(cmd.Args, "-chardev", chardev, "-device", fmt.Sprintf("%s,chardev=vu%d", d.QEMU, i))
	}
	monitor, peer, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	handles = append(handles, peer)
	cmd.ExtraFiles = append(cmd.ExtraFiles, peer)
	cmd.Args = append(cmd.Args, "-chardev", fmt.Sprintf("socket,id=qmp,fd=%d", 2+len(cmd.ExtraFiles)), "-mon", "chardev=qmp,mode=control")
	cmd.Args = append(cmd.Args, o.Args...)
	cmd.Stdout, cmd.Stderr = m.Console, m.Console
	// Not to outlive a test that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range handles {
		f.Close()
	}
	m.Cmd = cmd
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if m.QMP, err = qmp.Connect(ctx, monitor, func(qmp.Event) {}); err != nil {
		t.Errorf("QMP: %v", err)
	}
	go func() { _ = cmd.Wait(); close(m.exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-m.exited
		if m.QMP != nil {
			m.QMP.Close()
		}
		m.Vsock.Close()
		for _, s := range m.Servers {
			<-s.Done
			if s.Err != nil {
				t.Errorf("vhost-user server: %v", s.Err)
			}
		}
		if t.Failed() {
			t.Logf("console:\n%s", m.Console)
		}
	})
	return m
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

func (m *VM) serve(dev vhostuser.Device, accept func() (*net.UnixConn, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{Stop: cancel, Done: make(chan struct{})}
	m.Servers = append(m.Servers, s)
	go func() {
		defer close(s.Done)
		conn, err := accept()
		if err != nil {
			s.Err = err
			return
		}
		s.Err = vhostuser.Serve(ctx, conn, dev, slog.New(slog.NewTextHandler(m.Console, nil)))
	}()
}

// Exited is closed when QEMU has ended.
func (m *VM) Exited() <-chan struct{} { return m.exited }

// Dial connects to a port of the guest, waiting until something listens.
func (m *VM) Dial(port uint32) net.Conn {
	m.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		c, err := m.Vsock.Dial(ctx, port)
		cancel()
		if err == nil {
			return c
		}
		select {
		case <-m.exited:
			m.t.Fatalf("QEMU exited: %v\n%s", m.Cmd.ProcessState, m.Console)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("dial: %v\n%s", err, m.Console)
		}
	}
}

// Run runs a command of the guest program.
func (m *VM) Run(words ...any) (json.RawMessage, error) {
	c := m.Dial(1024)
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
func (m *VM) MustRun(words ...any) string {
	m.t.Helper()
	v, err := m.Run(words...)
	if err != nil {
		m.t.Fatalf("%v: %v %s", words, err, v)
	}
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

// initrd makes an initramfs of one program, by the path of its package.
func initrd(t testing.TB, program string, arch vm.Arch) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "init")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+string(arch))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	b, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "initrd"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = image.WriteCPIO(out, []image.CPIOEntry{
		{Name: "proc", Mode: image.CPIODir | 0o755},
		{Name: "sys", Mode: image.CPIODir | 0o755},
		{Name: "dev", Mode: image.CPIODir | 0o755},
		{Name: "dev/console", Mode: image.CPIODevice | 0o600, Major: 5, Minor: 1},
		{Name: "dev/null", Mode: image.CPIODevice | 0o666, Major: 1, Minor: 3},
		{Name: "init", Mode: image.CPIOFile | 0o755, Data: b},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Name()
}
