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
func Guest(arch string) ([]byte, error) { return program("osaurus-guest", arch) }

// Shim returns osaurus-host, which agents ask the host with.
func Shim(arch string) ([]byte, error) { return program("osaurus-host", arch) }

func program(name, arch string) ([]byte, error) {
	b, err := programs.ReadFile("bin/" + name + "-" + arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "load guest program", name+" for "+arch, nil).
			Advise("This binary was built without the guest programs: build it with `make build`.")
	}
	return b, err
}
