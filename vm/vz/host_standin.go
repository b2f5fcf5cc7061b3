//go:build vzstandin && linux

package vz

import "osaurus-sandbox/vm"

// The stand-in is a Mac with Apple silicon.

func nativeArch() vm.Arch { return vm.ARM64 }

func productVersion() string { return "15.1" }

func virtualizes() bool { return true }
