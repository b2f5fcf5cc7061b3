//go:build linux

// Command osaurus-guest is the guest's init and agent. It runs as PID 1, as the first process of
// each room, and as the worker for file operations.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"google.golang.org/protobuf/encoding/protojson"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/guest/pid1"
	"osaurus-sandbox/guest/room"
)

const usage = `osaurus-guest is the first process of a guest. Other uses:
	osaurus-guest export-tar DIRECTORY > FILE
	osaurus-guest export-layers USER > FILE
	osaurus-guest import-layers BASE ROOM < FILE
	osaurus-guest fetch URL`

// Keep the main goroutine on the first thread: a thread that enters a room must end, and the first
// thread cannot.
func init() { runtime.LockOSThread() }

func main() {
	command, args := "", os.Args[1:]
	if len(args) > 0 {
		command = args[0]
	}
	var err error
	switch {
	case command == room.InitCommand && len(args) == 1:
		room.Init() // PID 1 of a room
	case command == files.WorkerCommand && len(args) == 1:
		files.Work()
	case os.Getpid() == 1:
		pid1.Run(version())
	case command == "export-tar" && len(args) == 2:
		err = layers.ExportTar(os.Stdout, args[1])
	case command == "export-layers" && len(args) == 2:
		err = pid1.Rooms("").Export(args[1], os.Stdout)
	case command == "import-layers" && len(args) == 3:
		room := &guestpb.Room{}
		if err = protojson.Unmarshal([]byte(args[2]), room); err == nil {
			err = pid1.Rooms(args[1]).Import(room, os.Stdin)
		}
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
