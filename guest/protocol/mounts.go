package protocol

import (
	"path"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// MountsDir is where folders of the host are mounted in rooms, unless a path is given.
const MountsDir = "/mnt"

// The limits of mounts.
const (
	// MaxMounts bounds the mounts of one room, each with buffers in PID 1.
	MaxMounts = 16
	// MaxChanges bounds the changes of a mount that are listed.
	MaxChanges = 100_000
)

// CheckMountPath validates the path of a mount in a room with a home.
func CheckMountPath(at, home string) error {
	below := func(dir string) bool { return strings.HasPrefix(at, dir+"/") }
	if len(at) > MaxPath || at != path.Clean(at) || strings.ContainsRune(at, 0) || !below(MountsDir) && !below(home) {
		return fault.New(fault.InvalidArgs, "check mount", printable.Clip(at), nil).
			Advise("Mount below " + MountsDir + " or below the agent's home, by a path without links.")
	}
	return nil
}

// CheckChangePath validates the path of a change, relative to its mount.
func CheckChangePath(b []byte) error {
	p := string(b)
	if len(p) > MaxPath || p == "" || p == "." || p != path.Clean(p) || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return fault.New(fault.InvalidArgs, "check changed file", printable.Clip(p), nil).Advise("Name a file below the mount, such as src/main.go.")
	}
	return nil
}
