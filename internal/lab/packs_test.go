package lab

import (
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
)

// TestPacks makes the packs and images that other tests boot. `make test` runs it before
// them, and without the race detector, which would take minutes.
func TestPacks(t *testing.T) {
	packs := []pack.Pack{DebianPack(t)}
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		packs = append(packs, BusyboxPack(t, string(arch)), ReleasePack(t, arch, true))
		if p, ok := AlpinePack(t, string(arch)); ok {
			packs = append(packs, p)
		}
	}
	for _, p := range packs {
		if err := p.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if err := Image(t, p).Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
