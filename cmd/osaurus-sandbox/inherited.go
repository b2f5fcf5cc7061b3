package main

import (
	"os"
	"strconv"
	"syscall"
)

// keepInherited has nothing that this program starts find what whoever started this
// program left open: the daemon would hold a script's lock for days, and QEMU is not to
// be trusted with a file that it was not given.
func keepInherited() {
	open, _ := os.ReadDir("/dev/fd") // where there is none, descriptors cannot be known
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
}
