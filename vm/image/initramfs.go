package image

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/pack"
)

// moduleSet is what a guest loads of its kernel's modules. Built into the
// kernel is as good.
type moduleSet struct {
	// boot is loaded first of all, in this order: to be heard, to find the
	// disks and to answer the host. A kernel without one of them is refused.
	boot []string
	// bootIfThere is for kernels that do not do it by themselves: older ones
	// ask the crypto layer for ext4's checksums, which cannot load it.
	bootIfThere []string
	// late is loaded in the background after the guest has answered. Kernels
	// without one of them lose what it is for: the power button, entropy.
	late []string
	// rooms comes after late, and is for the network of rooms. A kernel without
	// one of them is refused too: no room would have a network.
	rooms []string
}

// needed is the same for all kernels: a name that one does not know is skipped
// or refused, as its list says. quota_v2 is not asked for by anything, but
// without it a file system with quotas cannot be mounted.
func needed() moduleSet {
	return moduleSet{
		boot: []string{
			"virtio_pci", "virtio_console", "virtio_blk", "vmw_vsock_virtio_transport",
			"ext4", "quota_v2", "overlay", "virtiofs", "virtio_net", "af_packet",
		},
		bootIfThere: []string{"crc32c_generic"},
		late:        []string{"evdev", "button", "gpio_keys", "virtio_rng"},
		rooms:       []string{"veth", "nf_tables", "nft_ct", "nft_connlimit", "nft_chain_nat", "nft_masq"},
	}
}

// Modules are the names of what an image takes of a pack's modules, besides what
// those need.
func Modules() []string {
	set := needed()
	return slices.Concat(set.boot, set.bootIfThere, set.late, set.rooms)
}

// The guest finds its modules in modulesDir, unpacked, and the names of their
// files, in the order to load them and one a line, in two lists.
const (
	modulesDir = "modules"
	orderList  = "order"
	lateList   = "late"
)

// buildInitramfs writes the first root of a guest: its programs, the modules,
// and the two devices without which no Go program starts. It is not
// compressed, because unpacking takes the guest longer than loading does.
func buildInitramfs(ctx context.Context, p pack.Pack, programs map[string][]byte, path string) error {
	boot, late, err := pickModules(ctx, p)
	if err != nil {
		return noModules(p, err)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	return errors.Join(WriteCPIO(out, initramfs(programs, boot, late)), out.Flush())
}

// noModules is the error of a pack of which no initramfs can be built. Where it lacks
// a module, it may be older than this program, which needs more than the one before.
func noModules(p pack.Pack, err error) error {
	failed := fault.Wrap("build initramfs", p.Path(p.Manifest.Modules), err)
	if failed.Kind != fault.NotFound {
		return failed
	}
	failed.Kind = fault.Unavailable
	from := map[pack.PackageTool]string{pack.APK: "alpine", pack.APT: "debian"}[p.Manifest.PackageTool]
	return failed.Advise(fmt.Sprintf("Build the pack anew: `osaurus-sandbox pack remove %s`, and then `osaurus-sandbox pack build %s`. If it came from elsewhere, take it anew from there.",
		p.Manifest.Name, from))
}

func initramfs(programs map[string][]byte, boot, late []kernel.Module) []CPIOEntry {
	entries := []CPIOEntry{
		{Name: "dev", Mode: CPIODir | 0o755},
		{Name: "dev/console", Mode: CPIODevice | 0o600, Major: 5, Minor: 1},
		{Name: "dev/null", Mode: CPIODevice | 0o666, Major: 1, Minor: 3},
		{Name: modulesDir, Mode: CPIODir | 0o755},
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		entries = append(entries, CPIOEntry{Name: name, Mode: CPIOFile | 0o555, Data: programs[name]})
	}
	for _, list := range []struct {
		name    string
		modules []kernel.Module
	}{{orderList, boot}, {lateList, late}} {
		var names strings.Builder
		for _, m := range list.modules {
			file := m.Name + ".ko"
			names.WriteString(file + "\n")
			entries = append(entries, CPIOEntry{Name: modulesDir + "/" + file, Mode: CPIOFile | 0o644, Data: m.Data})
		}
		entries = append(entries, CPIOEntry{Name: modulesDir + "/" + list.name, Mode: CPIOFile | 0o644, Data: []byte(names.String())})
	}
	return entries
}

// pickModules returns the modules of a pack to load at boot, and later.
func pickModules(ctx context.Context, p pack.Pack) (boot, late []kernel.Module, err error) {
	set := needed()
	walk := func(visit func(*tar.Header, io.Reader) error) error { return p.Walk(ctx, p.Manifest.Modules, visit) }
	tree, err := kernel.ReadModules(ctx, walk, Modules()...)
	if err != nil {
		return nil, nil, err
	}
	present := func(names []string) []string {
		return slices.DeleteFunc(names, func(n string) bool { return !tree.Has(n) })
	}
	first := slices.Concat(present(set.bootIfThere), set.boot)
	if boot, err = tree.Order(first...); err != nil {
		return nil, nil, err
	}
	all, err := tree.Order(slices.Concat(first, present(set.late), set.rooms)...)
	if err != nil {
		return nil, nil, err
	}
	return boot, all[len(boot):], nil
}
