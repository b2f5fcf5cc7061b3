package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// noCore has this program and what it starts leave no image of their memory when
// they crash: secrets are in it, and QEMU's is the whole guest. On Linux a limit of
// 1 also keeps the core from a collector of the system, which 0 does not.
func noCore() error {
	limit := unix.Rlimit{}
	if runtime.GOOS == "linux" {
		limit = unix.Rlimit{Cur: 1, Max: 1}
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &limit)
}
