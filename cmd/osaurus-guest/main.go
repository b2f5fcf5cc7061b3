//go:build linux

// Command osaurus-guest is the first process of a guest, and the only one of its own that runs as root.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"osaurus-sandbox/guest/pid1"
)

func main() {
	if os.Getpid() == 1 {
		pid1.Run(version())
	}
	fmt.Fprintln(os.Stderr, "osaurus-guest is the first process of a guest: it has nothing to do here.")
	os.Exit(2)
}

// version is what the build knows of its source.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
