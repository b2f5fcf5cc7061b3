//go:build linux

package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ReadLeft reads what a command has left in a pipe or on a terminal, and waits for nothing; 0
// says that there is nothing. A deadline that is over keeps Read from looking, also where it is
// over because this process had no processor until then.
func ReadLeft(f *os.File, b []byte) int {
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
