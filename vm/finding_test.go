package vm_test

import (
	"math"
	"testing"

	"osaurus-sandbox/vm"
)

func TestCheckFiles(t *testing.T) {
	const mend = "ask for more"
	if f := vm.CheckFiles(1, mend); f.Status != vm.FindingOK || f.Mend != "" || f.Detail == "" {
		t.Errorf("one file: %+v", f)
	}
	if f := vm.CheckFiles(math.MaxUint64-1, mend); f.Status != vm.FindingLimited || f.Mend != mend {
		t.Errorf("more than any system has: %+v", f)
	}
}
