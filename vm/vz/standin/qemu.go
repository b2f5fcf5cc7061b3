package vz

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/fs"
	"osaurus-sandbox/vm/qemu/qmp"
	"osaurus-sandbox/vm/qemu/vhostuser"
)

// Apple's loader takes a plain arm64 Image only, which has this magic.
const (
	imageMagic   = "ARM\x64"
	imageMagicAt = 0x38
)

// firstInherited is the number of the first of exec.Cmd.ExtraFiles.
const firstInherited = 3

// hypervisor is a QEMU that plays the framework's part.
type hypervisor struct {
	args     []string
	theirs   []*os.File      // QEMU's ends of its connections
	ours     []*net.UnixConn // this process's
	closers  []io.Closer     // what is over when QEMU is
	control  *qmp.Client
	stopping atomic.Bool

	serving sync.WaitGroup
	process *os.Process
	exited  chan struct{}
	err     error // of QEMU, once exited is closed
}

// power starts QEMU for a configuration.
func power(c *VirtualMachineConfiguration, socket *VirtioSocketDevice) (_ *hypervisor, err error) {
	if !isImage(c.loader.kernel) {
		return nil, startFailure()
	}
	h := &hypervisor{exited: make(chan struct{})}
	defer func() {
		if err != nil {
			slog.Error("stand-in: power on", "err", err)
			h.clean()
			err = startFailure()
		}
	}()
	h.machine(c)
	control, err := h.connect("control")
	if err != nil {
		return nil, err
	}
	h.add("-chardev", "socket,id=control,fd=%d", h.last())
	h.add("-mon", "chardev=control,mode=control")
	if err := h.consoles(c.serials); err != nil {
		return nil, err
	}
	h.disks(c.disks)
	h.networks(c.networks)
	if socket != nil {
		if err := h.serve(served{socket.device, socket}, "vhost-user-vsock-pci"); err != nil {
			return nil, err
		}
		h.closers = append(h.closers, socket.device)
	}
	if err := h.shares(c.shares); err != nil {
		return nil, err
	}
	if err := h.run(); err != nil {
		return nil, err
	}
	if h.control, err = qmp.Connect(context.Background(), control, func(qmp.Event) {}); err != nil {
		_ = h.process.Kill()
		<-h.exited
		return nil, fmt.Errorf("%w: %w", err, h.err)
	}
	return h, nil
}

func isImage(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, len(imageMagic))
	_, err = f.ReadAt(magic, imageMagicAt)
	return err == nil && string(magic) == imageMagic
}

func (h *hypervisor) add(option, format string, values ...any) {
	h.args = append(h.args, option, fmt.Sprintf(format, values...))
}

// machine is what has no connection to this process. A reset starts the guest
// again in its place: nothing is known of Apple's that would be kinder.
func (h *hypervisor) machine(c *VirtualMachineConfiguration) {
	h.args = append(h.args, "-nodefaults", "-no-user-config", "-display", "none")
	h.add("-name", "standin")
	h.add("-machine", "virt,gic-version=max,memory-backend=ram,dump-guest-core=off")
	h.add("-accel", "tcg,thread=multi")
	h.add("-cpu", "cortex-a57")
	h.add("-smp", "%d", c.cpus)
	h.add("-object", "memory-backend-memfd,id=ram,size=%d,share=on", c.memory)
	h.add("-m", "%dM", c.memory/mib)
	h.add("-kernel", "%s", c.loader.kernel)
	if c.loader.initrd != "" {
		h.add("-initrd", "%s", c.loader.initrd)
	}
	h.add("-append", "%s", c.loader.commandLine)
	for range c.entropy {
		h.add("-device", "virtio-rng-pci,disable-legacy=on")
	}
	for range c.balloons {
		h.add("-device", "virtio-balloon-pci,disable-legacy=on")
	}
}

func (h *hypervisor) disks(all []StorageDeviceConfiguration) {
	for i, d := range all {
		image := d.Attachment().(*DiskImageStorageDeviceAttachment)
		path := strings.ReplaceAll(image.path, ",", ",,")
		h.add("-drive", "if=none,id=disk%d,format=raw,readonly=%s,file=%s", i, onOff(image.readOnly), path)
		h.add("-device", "virtio-blk-pci,drive=disk%d,disable-legacy=on", i)
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (h *hypervisor) networks(all []*VirtioNetworkDeviceConfiguration) {
	for i, n := range all {
		mac := ""
		if n.mac != nil {
			mac = ",mac=" + n.mac.address.String()
		}
		h.add("-netdev", "user,id=net%d,ipv6=off", i)
		h.add("-device", "virtio-net-pci,netdev=net%d,romfile=,disable-legacy=on%s", i, mac)
	}
}

// consoles copies what the guest writes to the descriptor that it was given
// the number of, whatever that is by now.
func (h *hypervisor) consoles(all []*VirtioConsoleDeviceSerialPortConfiguration) error {
	for i, s := range all {
		to := s.attachment.(*FileHandleSerialPortAttachment).write
		conn, err := h.connect("console")
		if err != nil {
			return err
		}
		h.add("-chardev", "socket,id=console%d,fd=%d", i, h.last())
		h.add("-device", "virtio-serial-pci,max_ports=1,disable-legacy=on")
		h.add("-device", "virtconsole,chardev=console%d", i)
		h.serving.Go(func() { _, _ = io.Copy(descriptor(to), conn) })
	}
	return nil
}

// descriptor is a file that one knows the number of.
type descriptor int

func (d descriptor) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		n, err := unix.Write(int(d), p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return all - len(p), err
		}
		p = p[n:]
	}
	return all, nil
}

func (h *hypervisor) shares(all []DirectorySharingDeviceConfiguration) error {
	for _, s := range all {
		c := s.(*VirtioFileSystemDeviceConfiguration)
		share := vm.Share{Tag: c.tag, Ownership: vm.OwnershipAsker} // as Apple's server shows owners
		d := c.share.(*SingleDirectoryShare).directory
		share.Path, share.ReadOnly = d.path, d.readOnly
		device, err := fs.New(share, fs.Options{})
		if err != nil {
			return err
		}
		h.closers = append(h.closers, device)
		if err := h.serve(device, fmt.Sprintf("vhost-user-fs-pci,tag=%s,queue-size=1024", c.tag)); err != nil {
			return err
		}
	}
	return nil
}

// connect makes a connection whose other end QEMU inherits as last.
func (h *hypervisor) connect(name string) (*net.UnixConn, error) {
	ours, theirs, err := socketPair(name)
	if err != nil {
		return nil, err
	}
	h.ours, h.theirs = append(h.ours, ours), append(h.theirs, theirs)
	return ours, nil
}

func (h *hypervisor) last() int { return firstInherited + len(h.theirs) - 1 }

// serve serves a device to QEMU.
func (h *hypervisor) serve(d vhostuser.Device, device string) error {
	conn, err := h.connect(device)
	if err != nil {
		return err
	}
	h.add("-chardev", "socket,id=backend%d,fd=%[1]d", h.last())
	h.add("-device", "%s,chardev=backend%d", device, h.last())
	h.serving.Go(func() {
		if err := vhostuser.Serve(context.Background(), conn, d, slog.New(slog.DiscardHandler)); err != nil {
			slog.Error("stand-in: device ended", "device", device, "err", err)
		}
	})
	return nil
}

// run starts QEMU, which dies with this process.
func (h *hypervisor) run() error {
	cmd := exec.Command("qemu-system-aarch64", h.args...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles, cmd.Stderr = []string{"LC_ALL=C"}, "/", h.theirs, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: QEMU dies with its thread
		err := cmd.Start()
		h.process = cmd.Process
		started <- err
		if err == nil {
			h.err = cmd.Wait()
			close(h.exited)
		}
	}()
	err := <-started
	for _, f := range h.theirs {
		f.Close() // QEMU has its own
	}
	h.theirs = nil
	return err
}

// stop kills QEMU and returns when it is gone.
func (h *hypervisor) stop() {
	h.stopping.Store(true)
	_ = h.process.Kill()
	<-h.exited
}

// wait returns when QEMU and all that served it are gone, and reports whether
// that was meant to be.
func (h *hypervisor) wait() bool {
	<-h.exited
	h.clean()
	return h.err == nil || h.stopping.Load()
}

// clean lets go of everything.
func (h *hypervisor) clean() {
	if h.control != nil {
		<-h.control.Done()
		_ = h.control.Close()
	}
	for _, f := range h.theirs {
		f.Close()
	}
	if h.process == nil { // otherwise QEMU's end ends them
		for _, c := range h.ours {
			c.Close()
		}
	}
	h.serving.Wait()
	for _, c := range h.ours {
		c.Close()
	}
	for _, c := range h.closers {
		_ = c.Close()
	}
}

// socketPair makes a connection: one end for this process, one to be inherited.
func socketPair(name string) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f, theirs := os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}
