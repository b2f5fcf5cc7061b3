package untar

// Limits on archives. An archive that exceeds one is rejected.
const (
	// maxBytes bounds the unpacked archive. The largest known root file system has
	// 0.4 GB, and a base image can have 16 GiB.
	maxBytes = 8 << 30
	// maxEntries bounds the number of entries, and maxNames the bytes of their names,
	// since all names are kept in memory. A Debian root with the toolbox has 12,000
	// entries and less than a megabyte of names.
	maxEntries = 500_000
	maxNames   = 32 << 20
	// maxRatio bounds the compression ratio of archives that unpack to more than
	// freeRatio bytes. Kernel modules reach 5, source code 20.
	maxRatio  = 200
	freeRatio = 64 << 20
	// maxName, maxComponent and maxTarget are Linux's own limits.
	maxName      = 4095
	maxComponent = 255
	maxTarget    = 4095
	// maxXattrs bounds the extended attributes of an entry in bytes, as ext4 does.
	maxXattrs = 4096
	// maxID is the largest user or group. The next value means "unchanged" to chown.
	maxID = 1<<32 - 2
	// maxTime is the last second that ext4 can store.
	maxTime = 1<<34 - 1<<31 - 1
	// maxWindow bounds the memory of a zstd stream: what `zstd --long` needs.
	maxWindow = 128 << 20
)
