package main

import (
	"context"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vz"
)

// driver returns this system's driver.
func driver() vm.Driver { return &vz.Driver{} }

// checkDriver returns what the driver found to be missing or slow.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return vz.Check(ctx, arch) }

// opener returns the program that opens files like a double click.
func opener() string { return "/usr/bin/open" }

const getTermios, setTermios, flushTermios = unix.TIOCGETA, unix.TIOCSETA, unix.TIOCSETAF
