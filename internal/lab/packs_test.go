package lab

import (
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
)

// TestPacks makes the packs and images that other tests boot. `make test` runs it before
// them, and without the race detector, which would take minutes.
func TestPacks(t *testing.T) {
	prepare := func(name string, get func(*testing.T) (pack.Pack, bool)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for downloads
			p, ok := get(t)
			if !ok {
				t.Skip("no Alpine root file system")
			}
			if err := p.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := Image(t, p).VerifyBase(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	prepare("Debian", func(t *testing.T) (pack.Pack, bool) { return DebianPack(t), true })
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		name := string(arch)
		prepare("Release-"+name, func(t *testing.T) (pack.Pack, bool) { return ReleasePack(t, arch, true), true })
		prepare("Busybox-"+name, func(t *testing.T) (pack.Pack, bool) { return BusyboxPack(t, name), true })
		prepare("Alpine-"+name, func(t *testing.T) (pack.Pack, bool) { return AlpinePack(t, name) })
	}
}
