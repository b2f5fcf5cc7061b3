package main

import (
	"context"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/child"
	"osaurus-sandbox/vm/vz"
)

// driver returns this system's driver. Each machine has a process of its own, since an exception
// of Apple's framework ends the process.
func driver() vm.Driver {
	return &child.Driver{Driver: &vz.Driver{}, Command: func() *exec.Cmd {
		program, _ := os.Executable() // if it fails, so does the command
		cmd := exec.Command(program, runMachine)
		cmd.Stderr = os.Stderr
		return cmd
	}}
}

const runMachine = "run-machine"

// platformCommands returns the command of a machine's process.
func platformCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use: runMachine, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return child.Serve(&vz.Driver{}) },
	}}
}

// checkDriver returns what the driver found to be missing or slow.
func checkDriver(ctx context.Context, arch vm.Arch) []vm.Finding { return vz.Check(ctx, arch) }

const getTermios, setTermios, flushTermios = unix.TIOCGETA, unix.TIOCSETA, unix.TIOCSETAF
