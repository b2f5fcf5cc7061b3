//go:build linux

package pid1

import (
	"os"

	"golang.org/x/sys/unix"
)

// openConsole makes the console the standard streams. The kernel may have had
// none when it started this process: its driver can be one of our modules, or
// a hypervisor's console that is not the kernel's own.
func (m *machine) openConsole() {
	for _, path := range []string{"/dev/console", "/dev/hvc0"} {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		for std := range 3 {
			_ = unix.Dup3(fd, std, 0)
		}
		_ = unix.Close(fd)
		return
	}
	// Without a console, what is said goes nowhere, and children still find
	// three open streams.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for std := range 3 {
			_ = unix.Dup3(int(null.Fd()), std, 0)
		}
		_ = null.Close()
	}
}
