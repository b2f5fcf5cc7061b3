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
	select {
	case <-done:
	case <-n.room.Dead():
	case <-n.ended:
	}
	n.end()
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

// refreshed is how often a reviewed mount looks for changes by the host: as long as FUSE caches.
const refreshed = time.Second

// refresh has the overlay forget names until the mount ends. Overlayfs expects that nobody else
// changes its layers: it would keep a file that was replaced on the host as stale, and a new one as
// missing. A remount drops the names that no program has open.
func (n *mount) refresh(tree *os.File) {
	t := time.NewTicker(refreshed)
	defer t.Stop()
	for {
		select {
		case <-n.ended:
			return
		case <-t.C:
		}
		raw, err := tree.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) { // end cannot close it meanwhile
			f, err := unix.Fspick(int(fd), "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
			if err != nil {
				return
			}
			_ = unix.FsconfigReconfigure(f)
			_ = unix.Close(f)
		})
	}
}
