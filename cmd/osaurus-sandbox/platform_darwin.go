package main

import (
	"context"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vz"
)

// driver is what runs machines on this host.
func driver() vm.Driver { return &vz.Driver{} }

// checkDriver says what the driver finds here.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return vz.Check(ctx, arch) }

// opener is the program that opens a file as a double click would, if there is a
// desktop.
func opener() string { return "/usr/bin/open" }

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA
