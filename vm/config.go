package vm

import (
	"os"
	"runtime"
)

// Arch is a guest's processor architecture, under Go's names.
type Arch string

const (
	AMD64 Arch = "amd64"
	ARM64 Arch = "arm64"
)

// HostArch is the architecture of this host.
func HostArch() Arch { return Arch(runtime.GOARCH) }

// Config describes a machine to Driver.New. Drivers copy it, except that a share's
// Subtrees stay shared with the caller. Paths are absolute.
type Config struct {
	// Name is shown in process lists, logs and errors.
	Name string
	Arch Arch
	CPUs int
	// Memory is in bytes, a multiple of 1 MiB.
	Memory int64

	// Kernel is a bzImage (amd64) or a plain Image (arm64); Initrd a
	// (compressed or plain) cpio archive.
	Kernel, Initrd string
	// KernelArgs are appended to the driver's own (console, panic).
	KernelArgs []string

	// Disks become /dev/vda, /dev/vdb and so on in the guest.
	Disks  []Disk
	Shares []Share
	// NIC is the guest's end of a pair of AF_UNIX datagram sockets that carries one Ethernet
	// frame a datagram. Nil means no network device. The guest has the address
	// subnet.GuestMAC, but may send from any. The caller closes NIC after Start, and never
	// writes an empty datagram to the other end: QEMU takes it for the end of the network.
	NIC *os.File

	// ConsoleLog is the log file of the guest's console, bounded by rotating it once
	// (".1"). Empty means no log.
	ConsoleLog string
}

// Disk is a raw image file.
type Disk struct {
	Path     string
	ReadOnly bool
}

// Share is a folder of the host that the guest can mount by tag over VirtioFS.
type Share struct {
	Tag       string // at most MaxTag bytes of [A-Za-z0-9._-]
	Path      string // an existing folder
	ReadOnly  bool   // enforced on the host
	Ownership Ownership
	// Subtrees gives folders of the share owners and limits. It may be nil, and may
	// change while the machine runs. Drivers without OwnershipSubtree ignore it.
	Subtrees *Subtrees
	// MinFree is how many bytes guests leave free on the host's file system: a write
	// that needs them fails with ENOSPC. Drivers without OwnershipSubtree ignore it.
	MinFree int64
}

// MaxTag is the longest tag of a share: the device has a field of 36 bytes.
const MaxTag = 36

// Ownership decides which owner the guest sees for files of a share. On disk, all
// belong to the user who runs the host program.
type Ownership string

const (
	// OwnershipSubtree shows the owner of the file's subtree, and root outside of
	// subtrees.
	OwnershipSubtree Ownership = "subtree"
	// OwnershipAsker shows each guest user as the owner, as Apple's server does.
	OwnershipAsker Ownership = "asker"
	// OwnershipEverybody is OwnershipAsker with the owner's permissions for all. The
	// guest's kernel caches one owner per file, so it may check a user against the
	// owner that another user was shown.
	OwnershipEverybody Ownership = "everybody"
)
