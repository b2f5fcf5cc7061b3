package vz

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs/appletest"
	"osaurus-sandbox/vm/qemu"
)

// Apple's loader accepts only a plain arm64 Image, which has this magic number.
const (
	imageMagic   = "ARM\x64"
	imageMagicAt = 0x38
)

// hypervisor is a machine of the QEMU driver in place of the framework's.
type hypervisor struct {
	vm.Machine
	dir      string   // for console
	console  *os.File // a named pipe that the driver logs to
	writesTo descriptor
	nic      *os.File // or nil
	copying  sync.WaitGroup
}

// power starts QEMU for a configuration. Like the framework, it gives no reason if that fails.
func power(c *VirtualMachineConfiguration, socket *VirtioSocketDevice) (*hypervisor, error) {
	if !isImage(c.loader.kernel) {
		return nil, startFailure()
	}
	h, err := newHypervisor(c)
	if err == nil && socket != nil {
		err = socket.connect(h)
	}
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		slog.Error("stand-in: power on", "err", err)
		if h != nil {
			h.close()
		}
		return nil, startFailure()
	}
	if h.console != nil {
		h.copying.Go(func() { _, _ = io.Copy(h.writesTo, h.console) }) // until the driver closes it
	}
	return h, nil
}

func newHypervisor(c *VirtualMachineConfiguration) (_ *hypervisor, err error) {
	dir, err := os.MkdirTemp("", "standin-")
	if err != nil {
		return nil, err
	}
	cfg := vm.Config{
		Name: "standin", Arch: vm.ARM64, CPUs: int(c.cpus), Memory: int64(c.memory),
		Kernel: c.loader.kernel, Initrd: c.loader.initrd, KernelArgs: []string{c.loader.commandLine},
	}
	for _, d := range c.disks {
		image := d.Attachment().(*DiskImageStorageDeviceAttachment)
		cfg.Disks = append(cfg.Disks, vm.Disk{Path: image.path, ReadOnly: image.readOnly})
	}
	for _, s := range c.shares {
		device := s.(*VirtioFileSystemDeviceConfiguration)
		d := device.share.(*SingleDirectoryShare).directory
		// Apple's server shows owners in the same way; appletest has its other rules.
		cfg.Shares = append(cfg.Shares, vm.Share{Tag: device.tag, Path: d.path, ReadOnly: d.readOnly, Ownership: vm.OwnershipAsker})
	}
	h := &hypervisor{dir: dir}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if len(c.serials) > 0 {
		cfg.ConsoleLog = filepath.Join(dir, "console")
		h.writesTo = descriptor(c.serials[0].attachment.(*FileHandleSerialPortAttachment).write)
		if err := unix.Mkfifo(cfg.ConsoleLog, 0o600); err != nil {
			return nil, err
		}
		if h.console, err = os.OpenFile(cfg.ConsoleLog, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
			return nil, err
		}
	}
	if len(c.networks) > 0 {
		fd, err := unix.FcntlInt(uintptr(c.networks[0].attachment.(*FileHandleNetworkDeviceAttachment).fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		h.nic = os.NewFile(uintptr(fd), "nic")
		cfg.NIC = h.nic
	}
	if h.Machine, err = (&qemu.Driver{WrapShare: appletest.Wrap}).New(context.Background(), cfg); err != nil {
		return nil, err
	}
	return h, nil
}

// wait returns when the machine has ended, and reports whether it ended without an error.
func (h *hypervisor) wait() bool {
	<-h.Done()
	h.copying.Wait()
	h.close()
	return h.Err() == nil
}

func (h *hypervisor) close() {
	if h.Machine != nil {
		_ = h.Close()
	}
	if h.console != nil {
		h.console.Close()
	}
	_ = h.nic.Close()
	_ = os.RemoveAll(h.dir)
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

// descriptor is the number of a file that the program must keep open.
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

// socketPair returns both ends of a connection. The second is only a number.
func socketPair(name string) (*net.UnixConn, int, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fds[0]), name)
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		_ = unix.Close(fds[1])
		return nil, 0, err
	}
	return c.(*net.UnixConn), fds[1], nil
}
