//go:build linux

// Command intruder tries in a room what rooms forbid, and prints the kernel's answers.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		os.Args = append(os.Args, "calls")
	}
	name, args := os.Args[1], os.Args[2:]
	tricks := map[string]func([]string){
		"calls": calls, "x32": x32, "listen": listen, "serve": serve, "dial": dial, "spoof": spoof, "raw": raw, "rewire": rewire, "probe": probe, "get": get, "frames": frames, "setuid": setuid, "escape": escape,
		"hog-memory": hogMemory, "hog-forks": hogForks, "hog-files": hogFiles, "hog-descriptors": hogDescriptors, "hog-sockets": hogSockets, "hog-disk": hogDisk, "hog-cpu": hogCPU,
		"shm-put": shmPut, "shm-get": shmGet, "peek": peek, "kernel": kernel, "watch": watch, "stop": stop,
		"ask": ask, "modes": modes, "patches": patches,
	}
	trick, ok := tricks[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "intruder: no trick", name)
		os.Exit(2)
	}
	trick(args)
}

// say prints a name with ok or the name of the error.
func say(what string, err error) {
	answer := "ok"
	if err != nil {
		answer = err.Error()
		if e, is := err.(syscall.Errno); is {
			answer = unix.ErrnoName(e)
		}
	}
	fmt.Printf("%s %s\n", what, answer)
}

func seconds(args []string) time.Duration {
	n, _ := strconv.Atoi(args[0])
	return time.Duration(n) * time.Second
}
