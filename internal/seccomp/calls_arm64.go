//go:build linux

package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	hasX32    = false
)

func legacyMachine() []Call { return nil }

func legacyMetadata() []uint32 { return nil }
