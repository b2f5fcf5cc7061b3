//go:build linux

package process

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// holdsMost is more than a terminal holds, which does not say how much that is.
const holdsMost = 64 << 10

// Carry hands out what comes out of a pipe or a terminal until that ends. Once a deadline for
// it is over, its writers are to have ended: what they have left is handed out, and no more, since
// others may have it open who write on.
func Carry(f *os.File, buf []byte, take func([]byte) error) error {
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := take(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return nil
		}
	}
	for most := holds(f); most > 0; {
		n := readLeft(f, buf[:min(len(buf), most)])
		if n == 0 {
			return nil
		}
		if err := take(buf[:n]); err != nil {
			return err
		}
		most -= n
	}
	return nil
}

// holds is the most that there can be in a pipe or a terminal.
func holds(f *os.File) int {
	most := holdsMost
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
				most = n
			}
		})
	}
	return most
}

// readLeft reads what there is, and waits for nothing; 0 says that there is nothing. A deadline
// that is over keeps Read from looking, also where it is over because this process had no
// processor until then.
func readLeft(f *os.File, b []byte) int {
	raw, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	n := 0
	_ = raw.Read(func(fd uintptr) bool {
		n, _ = unix.Read(int(fd), b) // which may block in neither
		return true
	})
	return max(n, 0)
}
