package lab

import (
	"context"
	"slices"

	"osaurus-sandbox/vm"
)

// Driver is a driver whose guests start programs at the same addresses each time. QEMU 7.2
// finds what it has translated for amd64 by address, and takes three times as long to start
// a program that is elsewhere. No wall of a room rests on where programs are.
func Driver(d vm.Driver) vm.Driver { return fixed{d} }

type fixed struct{ vm.Driver }

// New implements vm.Driver.
func (f fixed) New(ctx context.Context, cfg vm.Config) (vm.Machine, error) {
	cfg.KernelArgs = append(slices.Clone(cfg.KernelArgs), "norandmaps")
	return f.Driver.New(ctx, cfg)
}
