package disk

import "golang.org/x/sys/unix"

// excludeFromBackups has Time Machine leave a file out. File systems without attributes have
// no backups either, so errors do not matter.
func excludeFromBackups(path string) {
	_ = unix.Setxattr(path, backupAttribute, []byte(backupValue), 0)
}
