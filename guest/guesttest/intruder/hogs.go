//go:build linux

package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hogMemory allocates memory. It uses little else, since the kernel is slow to kill a program whose own
// pages it keeps evicting.
func hogMemory([]string) {
	for {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
}

// hogForks forks until that fails, and keeps trying for a while.
func hogForks(args []string) {
	signal.Ignore(unix.SIGTERM)
	var end time.Time
	for end.IsZero() || time.Now().Before(end) {
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"intruder", "hog-forks", args[0]}, &syscall.ProcAttr{}); err == nil {
			continue
		}
		if end.IsZero() {
			end = time.Now().Add(seconds(args))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func hogFiles(args []string) {
	dir := args[0]
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		f.Close()
	}
}

func hogDisk(args []string) {
	f, err := os.Create(args[0])
	b := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(b)
	}
	fmt.Println(err)
	os.Exit(1)
}

// hogDescriptors opens sockets in as many processes as it may have. It never ends: sockets use memory
// that the kernel cannot evict.
func hogDescriptors([]string) {
	for ; ; time.Sleep(10 * time.Millisecond) {
		_, _ = syscall.ForkExec("/proc/self/exe", []string{"intruder", "hog-sockets"}, &syscall.ProcAttr{})
	}
}

// hogSockets opens sockets and keeps them.
func hogSockets([]string) {
	for {
		if _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func hogCPU(args []string) {
	for range 32 {
		go func() {
			for {
				runtime.Gosched()
			}
		}()
	}
	time.Sleep(seconds(args))
}
