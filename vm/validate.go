package vm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Limits of a Config.
const (
	// MaxCPUs is what the interrupt controller of the smallest machine type supports.
	MaxCPUs = 64
	// MinMemory is the least memory that a distribution's kernel boots in.
	MinMemory = 128 << 20
	// MaxMemory catches sizes in the wrong unit.
	MaxMemory = 1 << 40
	// MaxName keeps a machine's name readable in process lists.
	MaxName = 64

	sectorSize = 512 // of a virtio disk
)

var (
	validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	validTag  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// Validate checks a configuration for a driver with these capabilities. It fails with a
// fault.InvalidArgs that names the first wrong field. Drivers call it in New.
func (c *Config) Validate(caps Capabilities) error {
	return cmp.Or(c.checkSize(), c.checkKernel(), c.checkDisks(), c.checkShares(caps), c.checkNIC())
}

func invalid(field string, err error, advice string) error {
	return fault.New(fault.InvalidArgs, "check machine", field, err).Advise(advice)
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

func (c *Config) checkKernel() error {
	if _, err := checkFile(c.Kernel, os.O_RDONLY); err != nil {
		return invalid("Kernel", err, "Use the absolute path of a readable file.")
	}
	if c.Initrd != "" {
		if _, err := checkFile(c.Initrd, os.O_RDONLY); err != nil {
			return invalid("Initrd", err, "Use the absolute path of a readable file, or leave it empty.")
		}
	}
	return nil
}

func (c *Config) checkDisks() error {
	for i, d := range c.Disks {
		field := fmt.Sprintf("Disks[%d]", i)
		flag := os.O_RDWR
		if d.ReadOnly {
			flag = os.O_RDONLY
		}
		info, err := checkFile(d.Path, flag)
		if err != nil {
			return invalid(field, err, "Use the absolute path of a raw image that you can read, and can write unless the disk is read-only.")
		}
		if size := info.Size(); size == 0 || size%sectorSize != 0 {
			return invalid(field, fmt.Errorf("%s has %d bytes", d.Path, size), fmt.Sprintf("The size of a raw image is a multiple of %d bytes.", sectorSize))
		}
	}
	return nil
}

func (c *Config) checkShares(caps Capabilities) error {
	for i, s := range c.Shares {
		field := fmt.Sprintf("Shares[%d].", i)
		if len(s.Tag) > MaxTag || !validTag.MatchString(s.Tag) {
			return invalid(field+"Tag", fmt.Errorf("bad tag %q", s.Tag), fmt.Sprintf("A tag has 1 to %d letters, digits, dots, dashes and underscores.", MaxTag))
		}
		if err := checkFolder(s.Path); err != nil {
			return invalid(field+"Path", err, "Use the absolute path of an existing folder.")
		}
		if s.Ownership != "" && !slices.Contains(caps.Ownership, s.Ownership) {
			return invalid(field+"Ownership", fmt.Errorf("%q is not supported here", s.Ownership), fmt.Sprintf("Use one of %q, or leave it empty.", caps.Ownership))
		}
	}
	return nil
}

func (c *Config) checkNIC() error {
	if c.NIC == nil {
		return nil
	}
	kind, err := unix.GetsockoptInt(int(c.NIC.Fd()), unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_DGRAM {
		err = errors.New("not a datagram socket")
	}
	if err != nil {
		return invalid("NIC", err, "Use one end of a pair of datagram sockets, or nil.")
	}
	return nil
}

func checkFolder(path string) error {
	info, err := statAbsolute(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	return err
}

// checkFile checks that a regular file can be opened. It does not open other files:
// opening a pipe blocks.
func checkFile(path string, flag int) (os.FileInfo, error) {
	info, err := statAbsolute(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	return info, f.Close()
}

func statAbsolute(path string) (os.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q is not an absolute path", path)
	}
	return os.Stat(path)
}
