//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// stop SECONDS FILE... stops all processes that it may signal, and leases the files so that execve
// waits. It ends that after some time.
func stop(args []string) {
	signal.Ignore(unix.SIGIO) // another process waits for a lease
	for _, path := range args[1:] {
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
		}
		say("lease", err)
	}
	fmt.Println("stopping")
	for end := time.Now().Add(seconds(args)); time.Now().Before(end); {
		_ = unix.Kill(-1, unix.SIGSTOP)
	}
	time.Sleep(seconds(args))
	for range 10 {
		_ = unix.Kill(-1, unix.SIGCONT)
		time.Sleep(10 * time.Millisecond)
	}
}

const shmKey, shmSize = 4711, 4096

func shmPut([]string) {
	id, err := unix.SysvShmGet(shmKey, shmSize, unix.IPC_CREAT|0o666)
	if err == nil {
		b, _ := unix.SysvShmAttach(id, 0, 0)
		copy(b, "secret")
	}
	say("shm", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func shmGet([]string) {
	_, err := unix.SysvShmGet(shmKey, shmSize, 0)
	say("shm", err)
}
