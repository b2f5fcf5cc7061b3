//go:build (darwin && arm64) || vzstandin

package vz

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/vm"
)

var _ vm.Saver = (*machine)(nil)

// Save implements vm.Saver.
func (m *machine) Save(ctx context.Context, path string) error {
	const op = "save machine"
	if m.State() != vm.Paused {
		return m.Misfit(op)
	}
	if ok, err := m.hardware.ValidateSaveRestoreSupport(); err != nil || !ok {
		return fault.New(fault.Unavailable, op, m.name, err).Advise("Shut the machine down instead: macOS cannot save its devices.")
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.InvalidArgs, op, path, fs.ErrExist).Advise("Name a new file.")
	}
	return m.call(ctx, op, func() error { return m.apple.SaveMachineStateToPath(path) })
}

// Restore implements vm.Saver.
func (m *machine) Restore(ctx context.Context, path string) error {
	return m.powerOn(ctx, "restore machine", func() error { return m.apple.RestoreMachineStateFromURL(path) }, vm.Paused)
}
