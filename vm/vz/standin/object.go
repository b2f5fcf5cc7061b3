package vz

import (
	"errors"
	"fmt"
	"unsafe"
)

// nsObject has the methods of the real one, so that types of other packages do not implement it.
type nsObject interface {
	ptr() unsafe.Pointer
	release()
	retain()
}

type pointer struct{}

func (*pointer) ptr() unsafe.Pointer { return nil }
func (*pointer) release()            {}
func (*pointer) retain()             {}

// raise stands for an Objective-C exception, which would end a process.
func raise(format string, args ...any) {
	panic("NSInvalidArgumentException: " + fmt.Sprintf(format, args...))
}

var (
	ErrUnsupportedOSVersion = errors.New("unsupported macOS version")
	ErrBuildTargetOSVersion = errors.New("unsupported build target macOS version")
)

type NSError struct {
	Domain               string
	Code                 int
	LocalizedDescription string
	UserInfo             string
}

func (n *NSError) Error() string {
	return fmt.Sprintf("Error Domain=%s Code=%d Description=%q UserInfo=%s", n.Domain, n.Code, n.LocalizedDescription, n.UserInfo)
}

type ErrorCode int

const (
	ErrorInternal ErrorCode = 1 + iota
	ErrorInvalidVirtualMachineConfiguration
	ErrorInvalidVirtualMachineState
	ErrorInvalidVirtualMachineStateTransition
	ErrorInvalidDiskImage
	ErrorVirtualMachineLimitExceeded
	ErrorNetworkError
	ErrorOutOfDiskSpace
	ErrorOperationCancelled
	ErrorNotSupported
	ErrorSave
	ErrorRestore
)

func failure(code ErrorCode, format string, args ...any) error {
	return &NSError{Domain: "VZErrorDomain", Code: int(code), LocalizedDescription: fmt.Sprintf(format, args...), UserInfo: "{}"}
}

// startFailure is Apple's only error for a machine that does not start.
func startFailure() error {
	return failure(ErrorInternal, "Internal Virtualization error. The virtual machine failed to start.")
}
