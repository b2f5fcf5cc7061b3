package main

import (
	"context"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vz"
)

// driver is what runs machines on this host.
func driver() vm.Driver { return &vz.Driver{} }

// checkDriver says what the driver finds here.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return vz.Check(ctx, arch) }
