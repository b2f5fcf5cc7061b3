package untar

// What an archive may hold. Reaching a limit rejects the archive.
const (
	// maxBytes bounds the archive when unpacked. The largest root file system
	// known has 0.4 GB, and a base image ends at 16 GiB.
	maxBytes = 8 << 30
	// maxEntries bounds the entries, and maxNames the bytes of their names, all of
	// which are remembered. A Debian root with the toolbox has 12,000, with less than
	// a megabyte.
	maxEntries = 500_000
	maxNames   = 32 << 20
	// maxRatio bounds how far an archive unpacks, once it has unpacked to
	// freeRatio bytes. Kernel modules reach 5, source code 20.
	maxRatio  = 200
	freeRatio = 64 << 20
	// maxName, maxComponent and maxTarget are Linux's own limits.
	maxName      = 4095
	maxComponent = 255
	maxTarget    = 4095
	// maxXattrs bounds the extended attributes of an entry in bytes: what
	// ext4 keeps beside an inode.
	maxXattrs = 4096
	// maxID is the largest user or group: one below "nobody in particular".
	maxID = 1<<32 - 2
	// maxTime is the last second that ext4 can tell.
	maxTime = 1<<34 - 1<<31 - 1
	// maxWindow bounds the memory of a zstd stream: what `zstd --long` needs.
	maxWindow = 128 << 20
)
