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

// entitlement is the one that programs need to run virtual machines.
const entitlement = "com.apple.security.virtualization"

const signIt = "Sign this program with the entitlement " + entitlement + " by running make app. Copying or stripping it removes the signature."

// codes explains errors of domainVZ.
var codes = map[vz.ErrorCode]struct {
	kind   fault.Kind
	advice string
}{
	vz.ErrorInvalidVirtualMachineConfiguration:   {fault.InvalidArgs, "Fix what the framework names in the configuration."},
	vz.ErrorInvalidDiskImage:                     {fault.InvalidArgs, "Fix what the framework names in the configuration."},
	vz.ErrorInvalidVirtualMachineState:           {fault.Rejected, "Try again: the machine was changing state."},
	vz.ErrorInvalidVirtualMachineStateTransition: {fault.Rejected, "Try again: the machine was changing state."},
	vz.ErrorVirtualMachineLimitExceeded:          {fault.Unavailable, "Stop another virtual machine: macOS limits how many run at once."},
	vz.ErrorOutOfDiskSpace:                       {fault.Unavailable, "Free disk space."},
	vz.ErrorNotSupported:                         {fault.Unavailable, "Restart the machine: this Mac does not support the operation."},
}

// explain gives an error of the framework its kind and advice.
func explain(op, subject string, err error) *fault.Error {
	kind, advice := fault.Execution, "See the log of macOS: log show --last 5m --predicate 'process CONTAINS \"Virtualization\"'"
	switch {
	case fault.AdviceOf(err) != "": // made by this program
		kind, advice = fault.KindOf(err), fault.AdviceOf(err)
	case errors.Is(err, vz.ErrUnsupportedOSVersion):
		kind, advice = fault.Unavailable, "Update macOS to version 13 or later."
	case errors.Is(err, vz.ErrBuildTargetOSVersion):
		kind, advice = fault.Unavailable, "Build this program with a newer Xcode: it was built for an older macOS."
	case strings.Contains(err.Error(), entitlement):
		kind, advice = fault.Unavailable, signIt
	case strings.Contains(err.Error(), "not available on this hardware"):
		kind, advice = fault.Unavailable, otherMac
	default:
		if e, ok := errors.AsType[*vz.NSError](err); ok && e.Domain == domainVZ && codes[vz.ErrorCode(e.Code)].advice != "" {
			kind, advice = codes[vz.ErrorCode(e.Code)].kind, codes[vz.ErrorCode(e.Code)].advice
		}
	}
	return fault.New(kind, op, subject, err).Advise(advice)
}
