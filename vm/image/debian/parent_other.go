//go:build !linux

package debian

import "os/exec"

// dieWithParent does nothing: the programs run here are Debian's, on Linux.
func dieWithParent(*exec.Cmd) {}
