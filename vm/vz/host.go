//go:build darwin || vzstandin

package vz

import (
	"fmt"
	"strconv"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// oldest is the first release of macOS with machine identifiers.
var oldest = release{13, 0}

// release is a release of macOS.
type release struct{ major, minor int }

func (r release) atLeast(o release) bool {
	return r.major > o.major || r.major == o.major && r.minor >= o.minor
}

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

// parseRelease reads "14.5.1" or "26".
func parseRelease(text string) (release, error) {
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var r release
	var err error
	if r.major, err = strconv.Atoi(major); err == nil && minor != "" {
		r.minor, err = strconv.Atoi(minor)
	}
	if err != nil || r.major < 0 || r.minor < 0 {
		return release{}, fmt.Errorf("unknown macOS version %q", text)
	}
	return r, nil
}

// findHost returns the release of macOS, or an error with advice if this Mac cannot run
// guests of an architecture.
func findHost(arch vm.Arch) (release, error) {
	const op = "look for a driver"
	if arch != nativeArch() {
		return release{}, fault.Newf(fault.Unavailable, op, string(arch), "macOS only runs guests of its own architecture").
			Advise(fmt.Sprintf("Use a pack for %s.", nativeArch()))
	}
	text, err := productVersion()
	if err != nil {
		return release{}, fault.New(fault.Unavailable, op, "macOS", err)
	}
	r, err := parseRelease(text)
	if err != nil {
		return release{}, fault.New(fault.Unavailable, op, "macOS", err)
	}
	if !r.atLeast(oldest) {
		return release{}, fault.Newf(fault.Unavailable, op, "macOS "+r.String(), "too old").
			Advise(fmt.Sprintf("Update to macOS %s or later.", oldest))
	}
	if !virtualizes() {
		return release{}, fault.Newf(fault.Unavailable, op, "processor", "it has no virtualization (kern.hv_support is 0)").
			Advise(otherMac)
	}
	return r, nil
}

const otherMac = "Use a Mac from 2012 or later that is not a virtual machine."
