//go:build linux && !vzstandin

package boot_test

import (
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

func driver() vm.Driver { return &qemu.Driver{} }

// native is the architecture of guests that this host runs best.
func native() vm.Arch { return vm.HostArch() }

// alpineOnly says that Debian's pack cannot boot.
const alpineOnly = false
