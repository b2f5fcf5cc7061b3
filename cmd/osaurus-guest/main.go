//go:build linux

// Command osaurus-guest is the first process of a guest, and the only one of its own that runs as root.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"osaurus-sandbox/guest/export"
	"osaurus-sandbox/guest/fetch"
	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/pid1"
	"osaurus-sandbox/guest/room"
)

// The first thread stays with the main goroutine: one that enters a room ends
// there, and the first cannot end.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 && os.Args[1] == room.InitCommand {
		room.Init() // the first process of a room has pid 1 too, there
	}
	if len(os.Args) == 2 && os.Args[1] == files.WorkerCommand {
		files.Work()
	}
	if os.Getpid() == 1 {
		pid1.Run(version())
	}
	if len(os.Args) == 3 && os.Args[1] == "export-tar" {
		if err := export.Tar(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "osaurus-guest: export-tar:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "fetch" {
		if err := fetch.Get(context.Background(), os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	fmt.Fprintln(os.Stderr, "osaurus-guest is the first process of a guest. Elsewhere it is of two uses:\n\tosaurus-guest export-tar DIRECTORY > FILE\n\tosaurus-guest fetch URL")
	os.Exit(2)
}

// version is what the build knows of its source.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
