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
	return cmp.Or(c.checkSize(), c.checkFiles(), c.checkShares(caps), c.checkNIC())
}

func invalid(field string, err error, advice string) error {
	return fault.New(fault.InvalidArgs, "check machine", field, err).Advise(advice)
}

func (c *Config) checkSize() error {
	switch {
	case len(c.Name) > MaxName || !validName.MatchString(c.Name):
		return invalid("Name", fmt.Errorf("bad name %q", c.Name), fmt.Sprintf("A name has 1 to %d letters, digits, dots, dashes and underscores.", MaxName))
	case c.Arch != AMD64 && c.Arch != ARM64:
		return invalid("Arch", fmt.Errorf("unknown architecture %q", c.Arch), "Use amd64 or arm64.")
	case c.CPUs < 1 || c.CPUs > MaxCPUs:
		return invalid("CPUs", fmt.Errorf("%d processors", c.CPUs), fmt.Sprintf("Use 1 to %d.", MaxCPUs))
	case c.Memory < MinMemory || c.Memory > MaxMemory || c.Memory%(1<<20) != 0:
		return invalid("Memory", fmt.Errorf("%d bytes", c.Memory), fmt.Sprintf("Use a multiple of 1 MiB, from %d MiB.", MinMemory>>20))
	}
	return nil
}

func (c *Config) checkFiles() error {
	err := checkFile("Kernel", c.Kernel, os.O_RDONLY, 1)
	if err == nil && c.Initrd != "" {
		err = checkFile("Initrd", c.Initrd, os.O_RDONLY, 1)
	}
	for i, d := range c.Disks {
		flag := os.O_RDWR
		if d.ReadOnly {
			flag = os.O_RDONLY
		}
		err = cmp.Or(err, checkFile(fmt.Sprintf("Disks[%d]", i), d.Path, flag, sectorSize))
	}
	return err
}

// checkFile checks that a regular file can be opened and has a size in units. It does not open other
// files: opening a pipe blocks.
func checkFile(field, path string, flag int, unit int64) error {
	info, err := statAbsolute(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() == 0 || info.Size()%unit != 0) {
		err = fmt.Errorf("%s is %v of %d bytes, not a file of a multiple of %d", path, info.Mode().Type(), info.Size(), unit)
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, flag, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return invalid(field, err, "Use the absolute path of a file that you can read, and can write if it is a writable disk.")
	}
	return nil
}

func (c *Config) checkShares(caps Capabilities) error {
	for i, s := range c.Shares {
		field := fmt.Sprintf("Shares[%d].", i)
		info, err := statAbsolute(s.Path)
		switch {
		case len(s.Tag) > MaxTag || !validTag.MatchString(s.Tag):
			return invalid(field+"Tag", fmt.Errorf("bad tag %q", s.Tag), fmt.Sprintf("A tag has 1 to %d letters, digits, dots, dashes and underscores.", MaxTag))
		case err != nil || !info.IsDir():
			return invalid(field+"Path", cmp.Or(err, fmt.Errorf("%s is not a folder", s.Path)), "Use the absolute path of an existing folder.")
		case s.Ownership != "" && !slices.Contains(caps.Ownership, s.Ownership):
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

func statAbsolute(path string) (os.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q is not an absolute path", path)
	}
	return os.Stat(path)
}
