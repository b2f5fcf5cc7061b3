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

// bootModules and lateModules return the modules that a guest loads, unless they are built in: first
// console, disks and vsock, in this order, then the rest after it has answered. Kernels without one are
// rejected, unless it ends in "?". quota_v2 is needed to mount a file system with quotas, although no
// module depends on it.
func bootModules() []string {
	return []string{
		"crc32c_generic?", // older kernels need it for ext4's checksums and cannot load it on demand
		"virtio_pci", "virtio_console", "virtio_blk", "vmw_vsock_virtio_transport",
		"ext4", "quota_v2", "overlay", "virtiofs", "virtio_net", "af_packet",
	}
}

func lateModules() []string {
	return []string{
		"evdev?", "button?", "gpio_keys?", "virtio_rng?", // power button and entropy
		"veth", "nf_tables", // the network of rooms
	}
}

// Modules returns the names of the modules that an image needs, without their
// dependencies.
func Modules() []string {
	names := slices.Concat(bootModules(), lateModules())
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "?")
	}
	return names
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
		failed := fault.Wrap("build initramfs", p.Path(p.Manifest.Modules), err)
		if failed.Kind == fault.NotFound { // another build of this program may have made the pack
			failed.Kind = fault.Unavailable
			failed = failed.Advise(fmt.Sprintf("Run `osaurus-sandbox pack remove %s`, then `osaurus-sandbox pack build alpine` or `osaurus-sandbox pack build debian`. If the pack was imported, get a new one.", p.Manifest.Name))
		}
		return failed
	}
	return pack.WriteFile(path, func(f io.Writer) error {
		out := bufio.NewWriter(f)
		return errors.Join(WriteCPIO(out, initramfs(programs, boot, late)), out.Flush())
	})
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
	tree, err := kernel.ReadModules(ctx, walk, Modules()...)
	if err != nil {
		return nil, nil, err
	}
	present := func(names []string) (found []string) {
		for _, n := range names {
			if name, optional := strings.CutSuffix(n, "?"); !optional || tree.Has(name) {
				found = append(found, name)
			}
		}
		return found
	}
	first := present(bootModules())
	if boot, err = tree.Order(first...); err != nil {
		return nil, nil, err
	}
	all, err := tree.Order(append(first, present(lateModules())...)...)
	if err != nil {
		return nil, nil, err
	}
	return boot, all[len(boot):], nil
}
