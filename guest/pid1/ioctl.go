//go:build linux

package pid1

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests that golang.org/x/sys/unix does not have; the same on amd64 and arm64.
const (
	rndAddEntropy = 0x40085203 // RNDADDENTROPY
	ext4Resize    = 0x40086610 // EXT4_IOC_RESIZE_FS
)

// addEntropyTo mixes bytes into the pool behind /dev/random and says that all
// their bits are random.
func addEntropyTo(f *os.File, b []byte) error {
	pool := struct {
		bits, size int32
		buf        [64]byte
	}{}
	n := copy(pool.buf[:], b)
	pool.bits, pool.size = int32(8*n), int32(n)
	return ioctl(f, rndAddEntropy, unsafe.Pointer(&pool))
}

// growTo makes a mounted ext4 file system as large as its device.
func growTo(root *os.File, blocks uint64) error {
	return ioctl(root, ext4Resize, unsafe.Pointer(&blocks))
}

// deviceSize is the size of a block device in bytes.
func deviceSize(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var size uint64
	return size, ioctl(f, unix.BLKGETSIZE64, unsafe.Pointer(&size))
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}
