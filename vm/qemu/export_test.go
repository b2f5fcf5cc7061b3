//go:build linux

package qemu

import "osaurus-sandbox/vm"

// PID is the process id of a started machine's QEMU.
func PID(m vm.Machine) int { return m.(*machine).run.process.Pid }

var (
	ParseVersion = parseVersion
	Virtualizes  = virtualization.Match
)
