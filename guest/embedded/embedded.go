// Package embedded carries the guest programs that were built for each architecture.
package embedded

import (
	"embed"
	"errors"
	"io/fs"

	"osaurus-sandbox/fault"
)

// In a fresh clone the folder holds only its README, so that the module builds.
//
//go:embed bin
var programs embed.FS

// Guest returns osaurus-guest for the given architecture ("amd64", "arm64").
func Guest(arch string) ([]byte, error) {
	b, err := programs.ReadFile("bin/osaurus-guest-" + arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "load guest program", arch, nil).
			Advise("This binary was built without the guest programs: build it with `make build`.")
	}
	return b, err
}
