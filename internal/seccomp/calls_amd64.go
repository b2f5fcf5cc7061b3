//go:build linux

package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	hasX32    = true
)

// legacyMachine and legacyMetadata are calls that newer architectures do not have.
func legacyMachine() []Call {
	return []Call{{unix.SYS_IOPL, unix.EPERM}, {unix.SYS_IOPERM, unix.EPERM}, {unix.SYS_MODIFY_LDT, unix.ENOSYS}}
}

func legacyMetadata() []uint32 {
	return []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
}
