package main

import (
	"context"
	"os"
	"os/exec"

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

// opener returns the program that opens files like a double click, or "" without a desktop.
func opener() string {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return ""
	}
	program, _ := exec.LookPath("xdg-open") // "" if not installed
	return program
}

const getTermios, setTermios, flushTermios = unix.TCGETS, unix.TCSETS, unix.TCSETSF
