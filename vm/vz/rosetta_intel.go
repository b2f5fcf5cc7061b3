//go:build darwin && !arm64

package vz

import (
	"errors"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/fault"
)

// rosettaShare has nothing to share: amd64 programs run as they are.
func rosettaShare() (vz.DirectoryShare, error) {
	return nil, fault.New(fault.Unavailable, "share Rosetta", "", errors.New("it is for Apple silicon")).Advise("Leave Rosetta off.")
}
