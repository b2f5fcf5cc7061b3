//go:build linux

// Package qemu runs machines with QEMU on Linux: one unprivileged QEMU process for each, whose vsock and file-sharing devices live in this process.
package qemu

import (
	"context"
	"log/slog"

	"github.com/hanwen/go-fuse/v2/fuse"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
)

// Driver implements vm.Driver. The zero value is ready to use.
type Driver struct {
	// Log receives errors of devices. Nil discards them.
	Log *slog.Logger
	// WrapShare, if not nil, changes what shares answer, for tests: see fs.Options.
	WrapShare func(fuse.RawFileSystem) fuse.RawFileSystem
}

var _ vm.Driver = (*Driver)(nil)

func (d *Driver) Capabilities(ctx context.Context, arch vm.Arch) (vm.Capabilities, error) {
	if arch != vm.AMD64 && arch != vm.ARM64 {
		return vm.Capabilities{}, fault.Newf(fault.Unavailable, "look for a driver", string(arch), "unknown architecture").Advise("Use amd64 or arm64.")
	}
	if _, err := findProgram(ctx, arch); err != nil {
		return vm.Capabilities{}, err
	}
	return capabilities(arch), nil
}

func capabilities(arch vm.Arch) vm.Capabilities {
	can := vm.Capabilities{Accelerator: KVM, ResetEnds: true, Ownership: []vm.Ownership{vm.OwnershipSubtree, vm.OwnershipAsker, vm.OwnershipEverybody}}
	if tryKVM(arch) != nil {
		can.Accelerator = TCG
	}
	return can
}

func (d *Driver) New(ctx context.Context, cfg vm.Config) (vm.Machine, error) {
	can := capabilities(cfg.Arch)
	if err := cfg.Validate(can); err != nil {
		return nil, err
	}
	program, err := findProgram(ctx, cfg.Arch)
	if err != nil {
		return nil, err
	}
	log := d.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return newMachine(cfg, program.path, can.Accelerator, fs.Options{Log: log.With("machine", cfg.Name), Wrap: d.WrapShare})
}
