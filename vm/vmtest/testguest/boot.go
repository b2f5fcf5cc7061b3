//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/vm/vmtest/guestport"
)

// boot mounts file systems, loads modules and serves the ports. It returns only an error.
func boot() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"devtmpfs", "/dev"}, {"sysfs", "/sys"}, {"tmpfs", "/tmp"}} {
		_ = os.MkdirAll(m[1], 0o755)
		if err := syscall.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[0], err)
		}
	}
	args, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(args)), guestport.NeverUp) {
		time.Sleep(math.MaxInt64)
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := useConsole(); err != nil {
		return err
	}
	if err := network("eth0", subnet.Guest().Addr().AsSlice()); err != nil {
		fmt.Println("guest: no network:", err)
	}
	_ = network("lo", net.IPv4(127, 0, 0, 1))
	return serveAll()
}

func loadModules() error {
	order, err := os.ReadFile("/mod/order")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		f, err := os.Open("/mod/" + name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// useConsole prints to the virtio console, if there is one. The kernel could not open it before its
// driver was loaded.
func useConsole() error {
	fd, err := unix.Open("/dev/hvc0", unix.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open console: %w", err)
	}
	for std := range 3 {
		if err := unix.Dup3(fd, std, 0); err != nil {
			return err
		}
	}
	return unix.Close(fd)
}

// network sets an interface's address and brings it up.
func network(name string, ip net.IP) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(ip.To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, ifr); err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(net.IPv4(255, 255, 255, 0).To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, ifr); err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
