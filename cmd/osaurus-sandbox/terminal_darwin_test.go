package main

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// otherEnd is the terminal that a program is given, of which this is the
// person's end.
func otherEnd(master *os.File) (string, error) {
	var name [128]byte // as much as the system writes
	for _, request := range []uintptr{unix.TIOCPTYGRANT, unix.TIOCPTYUNLK, unix.TIOCPTYGNAME} {
		if _, _, err := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(&name))); err != 0 {
			return "", err
		}
	}
	return unix.ByteSliceToString(name[:]), nil
}
