package main

import (
	"context"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// driver is what runs machines on this host.
func driver() vm.Driver { return &qemu.Driver{} }

// checkDriver says what the driver finds here.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return qemu.Check(ctx, arch) }
