//go:build vzstandin

package boot_test

import (
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vz"
)

func driver() vm.Driver { return &vz.Driver{} }

// native is the architecture of the stand-in's Mac.
func native() vm.Arch { return vm.ARM64 }

// alpineOnly: Debian's pack for arm64 is made only where qemu-user runs its programs.
const alpineOnly = true
