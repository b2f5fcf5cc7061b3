//go:build vzstandin && linux

package vz

import "osaurus-sandbox/vm"

// The stand-in is a Mac with Apple silicon.

func nativeArch() vm.Arch { return vm.ARM64 }

func productVersion() (string, error) { return "15.1", nil }

func virtualizes() bool { return true }
