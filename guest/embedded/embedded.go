// Package embedded carries the guest programs that were built for each architecture.
package embedded

import (
	"embed"
	"errors"
	"io/fs"

	"osaurus-sandbox/internal/fault"
)

// In a fresh clone the folder holds only its README, so that the module builds.
//
//go:embed bin
var programs embed.FS

// Programs returns the programs of a guest of the given architecture ("amd64",
// "arm64"), by their names in its first root: init is osaurus-guest, and
// osaurus-host is what agents ask the host with.
func Programs[Arch ~string](arch Arch) (map[string][]byte, error) {
	init, err := program("osaurus-guest", string(arch))
	if err != nil {
		return nil, err
	}
	shim, err := program("osaurus-host", string(arch))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"init": init, "osaurus-host": shim}, nil
}

func program(name, arch string) ([]byte, error) {
	b, err := programs.ReadFile("bin/" + name + "-" + arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "load guest program", name+" for "+arch, nil).
			Advise("This binary was built without the guest programs: build it with `make build`.")
	}
	return b, err
}
