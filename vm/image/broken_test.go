package image

import (
	"context"
	"io/fs"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
)

// A disk that cannot read a file any more cannot be had in a test.
func TestWhichErrorsMeanABrokenImage(t *testing.T) {
	for cause, want := range map[error]bool{
		nil:                                    false,
		fault.New(fault.Rejected, "", "", nil): true,
		fs.ErrNotExist:                         true,
		syscall.EIO:                            true,
		syscall.EMFILE:                         false,
		syscall.ENFILE:                         false,
		syscall.ENOMEM:                         false,
		syscall.EACCES:                         false,
		context.Canceled:                       false,
		context.DeadlineExceeded:               false,
	} {
		err := cause
		if cause != nil {
			err = fault.Wrap("verify image", "a/file", &fs.PathError{Op: "read", Path: "a/file", Err: cause})
		}
		if got := broken(err); got != want {
			t.Errorf("broken(%v) = %v", err, got)
		}
	}
}
