package e2e

import "testing"

// QEMU returns the only QEMU process of a process.
func QEMU(t *testing.T, parent int) int { return qemuPID(t, parent) }
