//go:build linux

package pid1

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openConsole opens the console as the standard streams. The kernel may have started this process
// without one, if the driver is one of our modules or the hypervisor's console is not the kernel's.
func (m *machine) openConsole() {
	for _, path := range []string{"/dev/console", "/dev/hvc0"} {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		for std := range 3 {
			_ = unix.Dup3(fd, std, 0)
		}
		_ = unix.Close(fd)
		return
	}
	// Without a console, messages are lost, but children still get three open streams.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for std := range 3 {
			_ = unix.Dup3(int(null.Fd()), std, 0)
		}
		_ = null.Close()
	}
}

// button is an input device that may have a power key.
type button struct{ f *os.File }

// openButtons opens the machine's input devices. There are none if the kernel has no driver for
// them.
func openButtons() []button {
	var list []button
	paths, _ := filepath.Glob("/dev/input/event*")
	for _, p := range paths {
		if f, err := os.Open(p); err == nil {
			list = append(list, button{f})
		}
	}
	return list
}

// watch calls pressed when the power key is pressed.
func (b button) watch(pressed func()) {
	const (
		size     = 24 // sizeof(struct input_event)
		keyEvent = 1
		keyPower = 116
		down     = 1
	)
	defer b.f.Close()
	e := make([]byte, size)
	for {
		if n, err := b.f.Read(e); err != nil || n != size {
			return
		}
		kind, code, value := binary.LittleEndian.Uint16(e[16:]), binary.LittleEndian.Uint16(e[18:]), binary.LittleEndian.Uint32(e[20:])
		if kind == keyEvent && code == keyPower && value == down {
			pressed()
		}
	}
}

// ioctl requests missing from golang.org/x/sys/unix, equal on amd64 and arm64.
const (
	rndAddEntropy = 0x40085203 // RNDADDENTROPY
	ext4Resize    = 0x40086610 // EXT4_IOC_RESIZE_FS
)

// addEntropyTo mixes bytes into the pool of /dev/random and credits all their bits as entropy.
func addEntropyTo(f *os.File, b []byte) error {
	pool := struct {
		bits, size int32
		buf        [64]byte
	}{}
	n := copy(pool.buf[:], b)
	pool.bits, pool.size = int32(8*n), int32(n)
	return ioctl(f, rndAddEntropy, unsafe.Pointer(&pool))
}

// growTo grows a mounted ext4 file system to a number of blocks.
func growTo(root *os.File, blocks uint64) error {
	return ioctl(root, ext4Resize, unsafe.Pointer(&blocks))
}

// deviceSize returns the size of a block device in bytes.
func deviceSize(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var size uint64
	err = ioctl(f, unix.BLKGETSIZE64, unsafe.Pointer(&size))
	return size, err
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}
