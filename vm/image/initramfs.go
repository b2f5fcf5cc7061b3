package image

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/pack"
)

// moduleSet lists the kernel modules that a guest loads, unless they are built in.
type moduleSet struct {
	// boot is loaded first, in this order: console, disks, vsock. Kernels without one
	// of them are rejected.
	boot []string
	// optionalBoot is loaded before boot if the kernel has it: older kernels need
	// crc32c for ext4's checksums and cannot load it on demand.
	optionalBoot []string
	// late is loaded after the guest has answered. Without these modules, a guest has
	// no power button or less entropy.
	late []string
	// rooms is loaded after late, for the network of rooms. Kernels without one of
	// them are rejected.
	rooms []string
}

// needed returns the modules for any kernel. quota_v2 is needed to mount a file system
// with quotas, although no module depends on it.
func needed() moduleSet {
	return moduleSet{
		boot: []string{
			"virtio_pci", "virtio_console", "virtio_blk", "vmw_vsock_virtio_transport",
			"ext4", "quota_v2", "overlay", "virtiofs", "virtio_net", "af_packet",
		},
		optionalBoot: []string{"crc32c_generic"},
		late:         []string{"evdev", "button", "gpio_keys", "virtio_rng"},
		rooms:        []string{"veth", "nf_tables"},
	}
}

// Modules returns the names of the modules that an image needs, without their
// dependencies.
func Modules() []string {
	set := needed()
	return slices.Concat(set.boot, set.optionalBoot, set.late, set.rooms)
}

// modulesDir contains the unpacked modules and two lists of their files, one a line, in
// the order to load them.
const (
	modulesDir = "modules"
	orderList  = "order"
	lateList   = "late"
)

// buildInitramfs writes an initramfs with the guest's programs, its modules and the two
// devices that a Go program needs to start. It is not compressed, because unpacking it
// takes longer than loading it.
func buildInitramfs(ctx context.Context, p pack.Pack, programs map[string][]byte, path string) error {
	boot, late, err := pick(ctx, func(visit func(*tar.Header, io.Reader) error) error { return p.Walk(ctx, p.Manifest.Modules, visit) })
	if err != nil {
		return noModules(p, err)
	}
	return pack.WriteFile(path, func(f io.Writer) error {
		out := bufio.NewWriter(f)
		return errors.Join(WriteCPIO(out, initramfs(programs, boot, late)), out.Flush())
	})
}

// noModules returns the error for a pack without the needed modules, which an older
// version of this program may have built.
func noModules(p pack.Pack, err error) error {
	failed := fault.Wrap("build initramfs", p.Path(p.Manifest.Modules), err)
	if failed.Kind != fault.NotFound {
		return failed
	}
	failed.Kind = fault.Unavailable
	from := map[pack.PackageTool]string{pack.APK: "alpine", pack.APT: "debian"}[p.Manifest.PackageTool]
	return failed.Advise(fmt.Sprintf("Run `osaurus-sandbox pack remove %s` and `osaurus-sandbox pack build %s`. If the pack was imported, get a new one.",
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

// CheckModules checks that an archive of lib/modules/RELEASE has all modules that a guest needs.
func CheckModules(ctx context.Context, walk kernel.WalkFunc) error {
	_, _, err := pick(ctx, walk)
	return err
}

// pick returns the modules to load at boot, and those to load later.
func pick(ctx context.Context, walk kernel.WalkFunc) (boot, late []kernel.Module, err error) {
	set := needed()
	tree, err := kernel.ReadModules(ctx, walk, Modules()...)
	if err != nil {
		return nil, nil, err
	}
	present := func(names []string) []string {
		return slices.DeleteFunc(names, func(n string) bool { return !tree.Has(n) })
	}
	first := slices.Concat(present(set.optionalBoot), set.boot)
	if boot, err = tree.Order(first...); err != nil {
		return nil, nil, err
	}
	all, err := tree.Order(slices.Concat(first, present(set.late), set.rooms)...)
	if err != nil {
		return nil, nil, err
	}
	return boot, all[len(boot):], nil
}
