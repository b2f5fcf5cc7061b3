package alpine

import (
	"fmt"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
)

// version is the pinned release. Alpine does not change the files of a release. Sizes and
// digests were published by several projects for these files.
const version = "3.24.1"

// Pins lists the downloads for a pack.
type Pins struct {
	Version string
	Arch    vm.Arch
	ISO     fetch.File // with the kernel and its modules
	Root    fetch.File // the root file system, a .tar.gz
}

// Pinned returns the pinned release for an architecture.
func Pinned(arch vm.Arch) (Pins, error) {
	for _, p := range AllPinned() {
		if p.Arch == arch {
			return p, nil
		}
	}
	return Pins{}, fault.New(fault.InvalidArgs, "find the Alpine release for", string(arch), nil).
		Advise(fmt.Sprintf("The architectures are %s and %s.", vm.AMD64, vm.ARM64))
}

// AllPinned returns the pinned release for every architecture.
func AllPinned() []Pins {
	return []Pins{
		pins(vm.AMD64, "x86_64", 69206016, "e73a6241bd5f3c5c2d4d38c02cc52c378c0415a7c888bd292066bf36e0f41a39",
			3698422, "41f73e3cf5fa919b8aa5ca6b30dc48f0da2720776d7423e2a7748211456fe081"),
		pins(vm.ARM64, "aarch64", 92743680, "c81699152db11d2a6dbb7d75348d632fcf5811eff414d7e71876a8bb6d48bc02",
			4023732, "f55a90f69052c5bd6f92cb09a8f47065970830b194c917a006fb94028e721259"),
	}
}

// pins returns the files of an architecture in Alpine's release folder.
func pins(arch vm.Arch, machine string, isoSize int64, iso string, rootSize int64, root string) Pins {
	file := func(flavour, suffix string, size int64, sum string) fetch.File {
		name := fmt.Sprintf("alpine-%s-%s-%s%s", flavour, version, machine, suffix)
		return fetch.File{URL: "https://dl-cdn.alpinelinux.org/alpine/v3.24/releases/" + machine + "/" + name, Size: size, SHA256: pack.MustParseDigest(sum)}
	}
	return Pins{Version: version, Arch: arch, ISO: file("virt", ".iso", isoSize, iso), Root: file("minirootfs", ".tar.gz", rootSize, root)}
}

// Name returns the name of the pack.
func (p Pins) Name() string { return "alpine-" + p.Version + "-" + string(p.Arch) }
