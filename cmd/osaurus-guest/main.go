//go:build linux

// Command osaurus-guest is the first process of a guest, and the only one of its own that runs as root.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/pid1"
	"osaurus-sandbox/guest/room"
)

const usage = `osaurus-guest is the first process of a guest. Other uses:
	osaurus-guest export-tar DIRECTORY > FILE
	osaurus-guest fetch URL`

// The main goroutine keeps the first thread: a thread that enters a room ends there, and the first
// thread cannot end.
func init() { runtime.LockOSThread() }

func main() {
	command, args := "", os.Args[1:]
	if len(args) > 0 {
		command = args[0]
	}
	var err error
	switch {
	case command == room.InitCommand && len(args) == 1:
		room.Init() // has pid 1 in its room too
	case command == files.WorkerCommand && len(args) == 1:
		files.Work()
	case os.Getpid() == 1:
		pid1.Run(version())
	case command == "export-tar" && len(args) == 2:
		err = exportTar(os.Stdout, args[1])
	case command == "fetch" && len(args) == 2:
		err = fetch(context.Background(), os.Stdout, args[1])
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "osaurus-guest %s: %v\n", command, err)
		os.Exit(1)
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
