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

func hogMemory([]string) {
	type page struct {
		last *page
		text [1 << 20]byte
	}
	for p := (*page)(nil); ; {
		p = &page{last: p}
		for i := 0; i < len(p.text); i += 4096 {
			p.text[i] = 1
		}
	}
}

// hogForks makes processes until it may make no more, and goes on trying.
func hogForks(args []string) {
	signal.Ignore(unix.SIGTERM)
	for end := time.Now().Add(seconds(args)); time.Now().Before(end); {
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"intruder", "hog-forks", args[0]}, &syscall.ProcAttr{}); err != nil {
			time.Sleep(10 * time.Millisecond)
		}
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

// hogDescriptors opens sockets, in as many processes as it may have, and holds them
// for a while.
func hogDescriptors(args []string) {
	for {
		if _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
			continue
		}
		if _, err := syscall.ForkExec("/proc/self/exe", []string{"intruder", "hog-descriptors", args[0]}, &syscall.ProcAttr{}); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(seconds(args))
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
