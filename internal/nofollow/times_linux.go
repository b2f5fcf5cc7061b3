package nofollow

import (
	"io/fs"
	"syscall"
	"time"
)

// Changed returns when the content, the mode or the name of a file last changed.
func Changed(info fs.FileInfo) time.Time {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}
