//go:build linux

package mount

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage bounds a FUSE request or reply: 1 MiB of data, and its header.
const maxMessage = 1<<20 + 64<<10

// carry copies requests and replies until either side or the room ends.
func (n *mount) carry() {
	done := make(chan struct{}, 2)
	go func() { requests(n.conn, n.fuse); done <- struct{}{} }()
	go func() { replies(n.fuse, n.conn); done <- struct{}{} }()
	tick := time.NewTicker(refreshed)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-n.room.Dead():
			return
		case <-tick.C:
			n.refresh()
		}
	}
}

// requests copies the kernel's requests to the host. Each read returns one request.
func requests(to io.Writer, fuse *os.File) {
	for buf := make([]byte, maxMessage); ; {
		n, err := fuse.Read(buf)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) { // a request that was given up
			continue
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// replies copies the host's replies to the kernel, which takes one at a time.
func replies(fuse io.Writer, conn io.Reader) {
	for from := bufio.NewReaderSize(conn, maxMessage); ; {
		head, err := from.Peek(4)
		if err != nil {
			return
		}
		size := int(binary.LittleEndian.Uint32(head))
		reply, err := from.Peek(size)
		if err != nil || size == 0 {
			return
		}
		// ENOENT: the program that asked is gone.
		if _, err := fuse.Write(reply); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		_, _ = from.Discard(size)
	}
}
