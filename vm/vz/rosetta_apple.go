//go:build (darwin && arm64) || vzstandin

package vz

import (
	"errors"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/fault"
)

// rosettaShare is Apple's translator for amd64 programs.
func rosettaShare() (vz.DirectoryShare, error) {
	const op = "share Rosetta"
	switch vz.LinuxRosettaDirectoryShareAvailability() {
	case vz.LinuxRosettaAvailabilityNotSupported:
		return nil, fault.New(fault.Unavailable, op, "", errors.New("this Mac has no Rosetta for Linux")).Advise("Leave Rosetta off.")
	case vz.LinuxRosettaAvailabilityNotInstalled:
		return nil, fault.New(fault.Unavailable, op, "", errors.New("it is not installed")).Advise("softwareupdate --install-rosetta")
	}
	share, err := vz.NewLinuxRosettaDirectoryShare()
	if err != nil {
		return nil, err // and not share: it would be no nil
	}
	return share, nil
}
