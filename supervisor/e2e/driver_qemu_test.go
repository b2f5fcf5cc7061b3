//go:build linux && !vzstandin

package e2e

import (
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

func driver() vm.Driver { return &qemu.Driver{} }
