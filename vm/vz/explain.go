//go:build darwin || vzstandin

package vz

import (
	"errors"
	"strings"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/fault"
)

// Domains of Apple's errors.
const (
	domainVZ    = "VZErrorDomain"
	domainPOSIX = "NSPOSIXErrorDomain"
)

// entitlement is what macOS asks of a program that makes machines.
const entitlement = "com.apple.security.virtualization"

const signIt = "Sign this program with the entitlement " + entitlement + ", and again after every copy or strip: make app."

// explain makes an error of the framework one that says what is missing.
func explain(op, subject string, err error) *fault.Error {
	kind, advice := fault.Execution, "See what macOS says of it: log show --last 5m --predicate 'process CONTAINS \"Virtualization\"'"
	switch {
	case fault.AdviceOf(err) != "": // one of ours
		kind, advice = fault.KindOf(err), fault.AdviceOf(err)
	case errors.Is(err, vz.ErrUnsupportedOSVersion):
		kind, advice = fault.Unavailable, "Update macOS: machines need 13."
	case errors.Is(err, vz.ErrBuildTargetOSVersion):
		kind, advice = fault.Unavailable, "Build this program with a later Xcode: it was built for an older macOS."
	case strings.Contains(err.Error(), entitlement):
		kind, advice = fault.Unavailable, signIt
	case strings.Contains(err.Error(), "not available on this hardware"):
		kind, advice = fault.Unavailable, otherMac
	default:
		if e, ok := errors.AsType[*vz.NSError](err); ok && e.Domain == domainVZ {
			kind, advice = explainCode(vz.ErrorCode(e.Code), advice)
		}
	}
	return fault.New(kind, op, subject, err).Advise(advice)
}

func explainCode(code vz.ErrorCode, fallback string) (fault.Kind, string) {
	switch code {
	case vz.ErrorInvalidVirtualMachineConfiguration, vz.ErrorInvalidDiskImage:
		return fault.InvalidArgs, "Change what the framework names."
	case vz.ErrorInvalidVirtualMachineState, vz.ErrorInvalidVirtualMachineStateTransition:
		return fault.Rejected, "Try again: the machine was changing its state."
	case vz.ErrorVirtualMachineLimitExceeded:
		return fault.Unavailable, "Stop another virtual machine: macOS runs no more of them at once."
	case vz.ErrorOutOfDiskSpace:
		return fault.Unavailable, "Free some space on the disk."
	case vz.ErrorNotSupported:
		return fault.Unavailable, "Start the machine anew: this Mac cannot do it."
	}
	return fault.Execution, fallback
}
