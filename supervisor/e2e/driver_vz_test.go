//go:build vzstandin

package e2e

import (
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vz"
)

// The stand-in's machines are QEMU's too, so that they can be found and killed.
func driver() vm.Driver { return &vz.Driver{} }
