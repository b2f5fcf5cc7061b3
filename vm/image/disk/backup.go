package disk

// Time Machine leaves out files with this attribute: a property list that says
// "com.apple.backupd". A copy of a disk that a guest writes to is of no use, and each backup
// would hold the whole disk again.
const (
	backupAttribute = "com.apple.metadata:com_apple_backup_excludeItem"
	backupValue     = "bplist00\x5f\x10\x11com.apple.backupd\x08" +
		"\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x1c"
)
