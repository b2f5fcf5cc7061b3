package vm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// Limits of a Config.
const (
	// MaxCPUs is far above what one person's agents use; the interrupt
	// controller of the smallest machine type has room for so many.
	MaxCPUs = 64
	// MinMemory is the least that a distribution's kernel with an initramfs
	// boots in.
	MinMemory = 128 << 20
	// MaxMemory only catches a size given in the wrong unit.
	MaxMemory = 1 << 40
	// MaxDisks and MaxShares keep all devices on the root bus: of its 30 free
	// places console, entropy, network and vsock take four.
	MaxDisks  = 8
	MaxShares = 16
	// MaxKernelArgs leaves the driver's own arguments room in the 2048 bytes
	// that a kernel takes.
	MaxKernelArgs = 1536
	// MaxName is the longest name of a machine: it must fit a process list.
	MaxName = 64

	sectorSize = 512 // of a virtio disk
)

var (
	validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	validTag  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// Validate reports the first thing that is wrong with a configuration for a
// driver of the given abilities, as a fault.InvalidArgs that names the field.
// Drivers call it in New.
func (c *Config) Validate(caps Capabilities) error {
	checks := []func() error{
		c.checkSize, c.checkKernel, c.checkDisks,
		func() error { return c.checkShares(caps) },
		func() error { return c.checkNetwork(caps) },
		c.checkPlaces,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// invalid says that a field is wrong, and what it may be.
func invalid(field string, err error, allowed string) error {
	return fault.New(fault.InvalidArgs, "check machine", field, err).Advise(allowed)
}

func (c *Config) checkSize() error {
	if len(c.Name) > MaxName || !validName.MatchString(c.Name) {
		return invalid("Name", fmt.Errorf("bad name %q", c.Name), fmt.Sprintf("A name has 1 to %d letters, digits, dots, dashes and underscores.", MaxName))
	}
	if c.Arch != AMD64 && c.Arch != ARM64 {
		return invalid("Arch", fmt.Errorf("unknown architecture %q", c.Arch), "Use amd64 or arm64.")
	}
	if c.CPUs < 1 || c.CPUs > MaxCPUs {
		return invalid("CPUs", fmt.Errorf("%d processors", c.CPUs), fmt.Sprintf("Use 1 to %d.", MaxCPUs))
	}
	if c.Memory < MinMemory || c.Memory > MaxMemory || c.Memory%(1<<20) != 0 {
		return invalid("Memory", fmt.Errorf("%d bytes", c.Memory), fmt.Sprintf("Use a multiple of 1 MiB, from %d MiB.", MinMemory>>20))
	}
	return nil
}

// magics are what a bootable kernel has at an offset. Apple's loader takes
// nothing else, and no driver says anything helpful of another file.
var magics = map[Arch]struct {
	offset int64
	magic  []byte
	name   string
}{
	AMD64: {0x202, []byte("HdrS"), "bzImage"},
	ARM64: {0x38, []byte("ARM\x64"), "uncompressed Image"},
}

func (c *Config) checkKernel() error {
	f, err := openFile(c.Kernel, os.O_RDONLY)
	if err != nil {
		return invalid("Kernel", err, "Name a readable file by its absolute path.")
	}
	defer f.Close()
	want := magics[c.Arch]
	got := make([]byte, len(want.magic))
	if _, err := f.ReadAt(got, want.offset); (err != nil && err != io.EOF) || !bytes.Equal(got, want.magic) {
		return invalid("Kernel", fmt.Errorf("%s is no %s kernel for %s", c.Kernel, want.name, c.Arch), "Use a kernel for this architecture, unpacked to a "+want.name+".")
	}
	if c.Initrd != "" {
		f, err := openFile(c.Initrd, os.O_RDONLY)
		if err != nil {
			return invalid("Initrd", err, "Name a readable file by its absolute path, or leave it empty.")
		}
		f.Close()
	}
	for i, a := range c.KernelArgs {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return invalid(fmt.Sprintf("KernelArgs[%d]", i), fmt.Errorf("bad argument %q", a), "An argument is not empty and has no control characters.")
		}
	}
	if n := len(strings.Join(c.KernelArgs, " ")); n > MaxKernelArgs {
		return invalid("KernelArgs", fmt.Errorf("%d bytes", n), fmt.Sprintf("Together they may have %d bytes.", MaxKernelArgs))
	}
	return nil
}

func (c *Config) checkDisks() error {
	if len(c.Disks) > MaxDisks {
		return invalid("Disks", fmt.Errorf("%d disks", len(c.Disks)), fmt.Sprintf("Use at most %d.", MaxDisks))
	}
	seen := make([]os.FileInfo, len(c.Disks))
	for i, d := range c.Disks {
		field := fmt.Sprintf("Disks[%d]", i)
		flag := os.O_RDWR
		if d.ReadOnly {
			flag = os.O_RDONLY
		}
		f, err := openFile(d.Path, flag)
		if err != nil {
			return invalid(field, err, "Name a raw image file by its absolute path; you must be able to read it, and write unless the disk is read-only.")
		}
		seen[i], err = f.Stat()
		f.Close()
		if err != nil {
			return invalid(field, err, "Name a raw image file.")
		}
		if size := seen[i].Size(); size == 0 || size%sectorSize != 0 {
			return invalid(field, fmt.Errorf("%s has %d bytes", d.Path, size), fmt.Sprintf("A raw image is a multiple of %d bytes.", sectorSize))
		}
		for j := range i {
			if os.SameFile(seen[j], seen[i]) && !(d.ReadOnly && c.Disks[j].ReadOnly) {
				return invalid(field, fmt.Errorf("%s is Disks[%d] too", d.Path, j), "Only read-only disks may share an image.")
			}
		}
	}
	return nil
}

func (c *Config) checkShares(caps Capabilities) error {
	if len(c.Shares) > MaxShares {
		return invalid("Shares", fmt.Errorf("%d shares", len(c.Shares)), fmt.Sprintf("Use at most %d.", MaxShares))
	}
	tags := map[string]int{}
	for i, s := range c.Shares {
		field := fmt.Sprintf("Shares[%d].", i)
		if len(s.Tag) > MaxTag || !validTag.MatchString(s.Tag) {
			return invalid(field+"Tag", fmt.Errorf("bad tag %q", s.Tag), fmt.Sprintf("A tag has 1 to %d letters, digits, dots, dashes and underscores.", MaxTag))
		}
		if j, twice := tags[s.Tag]; twice {
			return invalid(field+"Tag", fmt.Errorf("%s is Shares[%d]'s too", s.Tag, j), "Give each share its own tag.")
		}
		tags[s.Tag] = i
		if err := folder(s.Path); err != nil {
			return invalid(field+"Path", err, "Name an existing folder by its absolute path.")
		}
		if s.Ownership != "" && !slices.Contains(caps.Ownership, s.Ownership) {
			return invalid(field+"Ownership", fmt.Errorf("%q is not to be had here", s.Ownership), fmt.Sprintf("Use one of %q, or leave it empty.", caps.Ownership))
		}
		if s.MinFree < 0 {
			return invalid(field+"MinFree", fmt.Errorf("%d bytes", s.MinFree), "Use zero (no floor) or more.")
		}
	}
	return nil
}

func (c *Config) checkNetwork(caps Capabilities) error {
	if c.Network != "" && !slices.Contains(caps.Network, c.Network) {
		return invalid("Network", fmt.Errorf("%q is not to be had here", c.Network), fmt.Sprintf("Use one of %q, or leave it empty.", caps.Network))
	}
	return nil
}

// checkPlaces checks where the driver is to write.
func (c *Config) checkPlaces() error {
	if c.ConsoleLog != "" {
		if err := folder(filepath.Dir(c.ConsoleLog)); err != nil {
			return invalid("ConsoleLog", err, "Name a file by its absolute path, and make its folder first.")
		}
		if st, err := os.Lstat(c.ConsoleLog); err == nil && !st.Mode().IsRegular() {
			return invalid("ConsoleLog", fmt.Errorf("%s is not a file", c.ConsoleLog), "Name a new file or a former log.")
		}
	}
	if c.StateDir != "" {
		if err := folder(c.StateDir); err != nil {
			return invalid("StateDir", err, "Make the folder first and name it by its absolute path, or leave it empty.")
		}
	}
	return nil
}

// absolute refuses a path that would mean something else in another process.
func absolute(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	return nil
}

func folder(path string) error {
	if err := absolute(path); err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	return err
}

// openFile opens an ordinary file; it would wait for ever for a pipe's peer.
func openFile(path string, flag int) (*os.File, error) {
	if err := absolute(path); err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not an ordinary file")}
	}
	return os.OpenFile(path, flag, 0)
}
