package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// driver returns this system's driver.
func driver() vm.Driver { return &qemu.Driver{} }

// platformCommands returns no commands: QEMU is a process of its own.
func platformCommands() []*cobra.Command { return nil }

// checkDriver returns what the driver found to be missing or slow.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return qemu.Check(ctx, arch) }

const getTermios, setTermios, flushTermios = unix.TCGETS, unix.TCSETS, unix.TCSETSF
