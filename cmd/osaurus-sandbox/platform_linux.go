package main

import (
	"context"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// driver is what runs machines on this host.
func driver() vm.Driver { return &qemu.Driver{} }

// checkDriver says what the driver finds here.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return qemu.Check(ctx, arch) }

// opener is the program that opens a file as a double click would, if there is a
// desktop.
func opener() string {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return ""
	}
	program, _ := exec.LookPath("xdg-open") // without it there is none
	return program
}

const getTermios, setTermios = unix.TCGETS, unix.TCSETS
