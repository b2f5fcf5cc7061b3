package main

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// otherEnd returns the path of a pseudo-terminal's other end, which a program gets.
func otherEnd(master *os.File) (string, error) {
	var name [128]byte // what the system writes at most
	for _, request := range []uintptr{unix.TIOCPTYGRANT, unix.TIOCPTYUNLK, unix.TIOCPTYGNAME} {
		if _, _, err := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(&name))); err != 0 {
			return "", err
		}
	}
	return unix.ByteSliceToString(name[:]), nil
}
