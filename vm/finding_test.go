package vm_test

import (
	"math"
	"testing"

	"osaurus-sandbox/vm"
)

func TestCheckFiles(t *testing.T) {
	const fix = "ask for more"
	if f := vm.CheckFiles(1, fix); f.Status != vm.FindingOK || f.Fix != "" || f.Detail == "" {
		t.Errorf("one file: %+v", f)
	}
	if f := vm.CheckFiles(math.MaxUint64-1, fix); f.Status != vm.FindingLimited || f.Fix != fix {
		t.Errorf("more than any system has: %+v", f)
	}
}
