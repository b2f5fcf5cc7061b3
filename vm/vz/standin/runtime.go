package vz

// int sendFileDescriptor(int fd);
import "C"

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// handOver makes a connection of a descriptor of the framework as vz does: vz closes the
// descriptor, although its VZVirtioSocketConnection owns it and closes it a moment later
// (apple/containerization issue 382, tart issue 1333). A program that lets this happen ends.
func handOver(fd int) (net.Conn, error) {
	mine := inode(fd)
	defer time.AfterFunc(time.Millisecond+rand.N(4*time.Millisecond), func() { // released
		other := inode(fd) != mine
		_ = unix.Close(fd)
		if other {
			panic(fmt.Sprintf("descriptor %d of a VZVirtioSocketConnection was closed twice", fd))
		}
	})
	f := os.NewFile(uintptr(C.sendFileDescriptor(C.int(fd))), "")
	defer f.Close()
	return net.FileConn(f)
}

// inode identifies an open file. It is 0 for none.
func inode(fd int) uint64 {
	var s unix.Stat_t
	_ = unix.Fstat(fd, &s)
	return s.Ino
}
