package vm

import (
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

// Config is everything that a machine is made of. It is plain data, checked by
// Validate: no driver keeps a reference to it after New, but to the Subtrees of
// shares. Paths are absolute.
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

	// Disks appear in the guest as /dev/vda, /dev/vdb, … in this order.
	Disks []Disk
	// Shares are folders of the host, mounted in the guest by their tags.
	Shares []Share
	// Network is the guest's way out; zero means NetworkNone.
	Network NetworkKind

	// ConsoleLog is the file that the guest's console is written to. It is
	// rotated once (".1") and bounded. Empty means that nothing is kept.
	ConsoleLog string
	// StateDir is a directory where the driver may keep what must outlive
	// one run of the same machine, such as a machine identifier.
	StateDir string
}

// Disk is a raw image file.
type Disk struct {
	Path     string
	ReadOnly bool
}

// NetworkKind is a kind of network.
type NetworkKind string

const (
	NetworkNone NetworkKind = "none" // no device at all
	NetworkNAT  NetworkKind = "nat"  // outbound through the host, with DHCP and DNS
)

// Share is a folder of the host that the guest can mount over VirtioFS.
type Share struct {
	Tag       string // at most MaxTag bytes of [A-Za-z0-9._-]
	Path      string // an existing folder
	ReadOnly  bool   // enforced on the host
	Ownership Ownership
	// Subtrees, when not nil, gives parts of the share an owner and limits.
	// It may be changed while the machine runs. A driver without
	// OwnershipSubtree ignores both.
	Subtrees *Subtrees
	// MinFree is how many bytes must stay free on the host's file system:
	// a write that would go below fails with ENOSPC in the guest. A driver
	// without OwnershipSubtree cannot keep it.
	MinFree int64
}

// MaxTag is the longest tag of a share: the device has a field of 36 bytes.
const MaxTag = 36

// Ownership is who the files of a share seem to belong to. On disk they all
// belong to the user who runs the host program.
type Ownership string

const (
	// OwnershipSubtree shows the owner of the subtree that a file is in, root
	// elsewhere.
	OwnershipSubtree Ownership = "subtree"
	// OwnershipAsker shows whoever asks as the owner: what Apple's server does.
	OwnershipAsker Ownership = "asker"
	// OwnershipEverybody shows whoever asks as the owner, and gives everybody else the owner's
	// permissions: the guest's kernel keeps one owner of a file for all its users, and may check one who
	// asks against another who has just asked.
	OwnershipEverybody Ownership = "everybody"
)
