//go:build linux

package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

// usualMode is the mode of a new file.
const usualMode = 0o644

// Write writes a whole file or leaves the old one.
func (service) Write(ctx context.Context, r *guestpb.WriteFileRequest) (*guestpb.WriteFileResponse, error) {
	w := &writing{WriteFileRequest: r, op: "write"}
	answer, err := w.do(ctx)
	if err != nil {
		return nil, explain(w.op, shown(r.File), err)
	}
	return answer, nil
}

// writing is a file that is being written.
type writing struct {
	*guestpb.WriteFileRequest
	op string
}

func (w *writing) do(ctx context.Context) (*guestpb.WriteFileResponse, error) {
	s, err := find(w.op, w.File, w.Parents)
	if err != nil {
		return nil, err
	}
	defer s.close()
	mode, created, err := w.before(ctx, s)
	if err != nil {
		return nil, err
	}
	size := uint64(len(w.Content))
	if w.Append {
		size, err = w.append(s, mode)
	} else {
		err = w.replace(ctx, s, mode)
	}
	if err != nil {
		return nil, err
	}
	return &guestpb.WriteFileResponse{Created: created, Size: size}, nil
}

// before checks whether the file may be written and returns its mode.
func (w *writing) before(ctx context.Context, s *spot) (mode uint32, created bool, err error) {
	old, err := lookUp(int(s.folder.Fd()), s.name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		if len(w.IfSha256) > 0 {
			return 0, false, w.changed("the file no longer exists")
		}
		return cmp.Or(w.Mode, usualMode), true, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer old.Close()
	is, err := infoOf(old)
	switch {
	case err != nil:
		return 0, false, err
	case is.Kind != string(engine.RegularFile):
		return 0, false, notAFile(w.op, s.shown, is.Kind)
	case w.IfAbsent:
		return 0, false, fault.New(fault.Rejected, w.op, s.shown, unix.EEXIST)
	}
	// A write-protected file is not replaced, although its folder would allow it.
	if err := unix.Faccessat2(int(s.folder.Fd()), s.name, unix.W_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, false, err
	}
	if want := w.IfSha256; len(want) > 0 {
		sum := sha256.New()
		if _, err := io.Copy(sum, wanted{ctx, old}); err != nil {
			return 0, false, err
		}
		if !bytes.Equal(sum.Sum(nil), want) {
			return 0, false, w.changed("the file has changed since it was read")
		}
	}
	return is.Mode & 0o777, false, nil
}

func (w *writing) changed(how string) error {
	return fault.New(fault.Rejected, w.op, shown(w.File), errors.New(how)).Advise("Read it again and redo the change.")
}

// setMode is Chmod. In the shared folder the kernel caches the owner seen by the last agent that
// looked; a Stat of our own corrects that.
func setMode(f *os.File, mode os.FileMode) error {
	err := f.Chmod(mode)
	if errors.Is(err, unix.EPERM) {
		if _, err := f.Stat(); err != nil {
			return err
		}
		err = f.Chmod(mode)
	}
	return err
}

// replace writes a new file beside the old one and gives it the name.
func (w *writing) replace(ctx context.Context, s *spot, mode uint32) error {
	folder := int(s.folder.Fd())
	name := ".osaurus-" + rand.Text()
	fd, err := unix.Openat(folder, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(w.Content)
	if err == nil {
		err = setMode(f, os.FileMode(mode))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && len(w.IfSha256) > 0 {
		_, _, err = w.before(ctx, s) // again, because writing may have taken a while
	}
	if err == nil && w.IfAbsent {
		err = unix.Renameat2(folder, name, folder, s.name, unix.RENAME_NOREPLACE)
	} else if err == nil {
		err = unix.Renameat(folder, name, folder, s.name)
	}
	if err != nil {
		_ = unix.Unlinkat(folder, name, 0)
	}
	return err
}

// append writes to the end of the file and returns its size.
func (w *writing) append(s *spot, mode uint32) (uint64, error) {
	f, err := lookUp(int(s.folder.Fd()), s.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(w.Content)
	if err == nil {
		err = f.Sync()
	}
	is, failed := infoOf(f)
	return is.GetSize(), errors.Join(err, failed, f.Close())
}
