//go:build linux

package mount

import (
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
func replies(fuse io.Writer, from io.Reader) {
	for buf, have := make([]byte, maxMessage), 0; ; {
		n, err := from.Read(buf[have:])
		have += n
		used := 0
		for {
			rest := buf[used:have]
			if len(rest) < 4 {
				break
			}
			size := int(binary.LittleEndian.Uint32(rest))
			if size < 4 || size > maxMessage {
				return
			}
			if size > len(rest) {
				break
			}
			// ENOENT: the program that asked is gone.
			if _, err := fuse.Write(rest[:size]); err != nil && !errors.Is(err, unix.ENOENT) {
				return
			}
			used += size
		}
		have = copy(buf, buf[used:have])
		if err != nil {
			return
		}
	}
}
