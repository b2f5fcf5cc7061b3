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
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// usualMode is the mode of a new file.
const usualMode = 0o644

// Write writes a whole file or leaves the old one.
func (service) Write(ctx context.Context, r *guestpb.WriteFileRequest) (*guestpb.WriteFileResponse, error) {
	const op = "write"
	w := &writing{header: r, content: protocol.ContentOf(ctx)}
	answer, err := w.do(ctx, op)
	if err != nil {
		if w.content.Size > 0 { // the caller reads the error only after it has sent everything
			_, _ = io.Copy(io.Discard, w.content)
		}
		return nil, explain(op, shown(r.File), err)
	}
	return answer, nil
}

// writing is a file that is being written.
type writing struct {
	header  *guestpb.WriteFileRequest
	content protocol.Content
}

func (w *writing) do(ctx context.Context, op string) (*guestpb.WriteFileResponse, error) {
	if err := protocol.CheckWriteFile(w.header); err != nil {
		return nil, err
	}
	if said, come := w.header.Size, w.content.Size; said != come {
		return nil, fault.Newf(fault.InvalidArgs, op, shown(w.header.File), "%d bytes instead of the announced %d", come, said)
	}
	s, err := find(op, w.header.File, w.header.Parents)
	if err != nil {
		return nil, err
	}
	defer s.close()
	mode, created, err := w.before(ctx, op, s)
	if err != nil {
		return nil, err
	}
	var size uint64
	if w.header.Append {
		size, err = w.append(s, mode)
	} else {
		size, err = w.replace(ctx, op, s, mode)
	}
	if err != nil {
		return nil, err
	}
	return &guestpb.WriteFileResponse{Created: created, Size: size}, nil
}

// before checks whether the file may be written and returns its mode.
func (w *writing) before(ctx context.Context, op string, s *spot) (mode uint32, created bool, err error) {
	old, err := lookUp(int(s.folder.Fd()), s.name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		if len(w.header.IfSha256) > 0 {
			return 0, false, changed(op, s.shown, "the file no longer exists")
		}
		return cmp.Or(w.header.Mode, usualMode), true, nil
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
		return 0, false, notAFile(op, s.shown, is.Kind)
	case w.header.IfAbsent:
		return 0, false, fault.New(fault.Rejected, op, s.shown, unix.EEXIST)
	}
	// A write-protected file is not replaced, although its folder would allow it.
	if err := unix.Faccessat2(int(s.folder.Fd()), s.name, unix.W_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, false, err
	}
	if want := w.header.IfSha256; len(want) > 0 {
		sum := sha256.New()
		if _, err := io.Copy(sum, wanted{ctx, old}); err != nil {
			return 0, false, err
		}
		if !bytes.Equal(sum.Sum(nil), want) {
			return 0, false, changed(op, s.shown, "the file has changed since it was read")
		}
	}
	return is.Mode & 0o777, false, nil
}

func changed(op, path, how string) error {
	return fault.New(fault.Rejected, op, path, errors.New(how)).Advise("Read it again and redo the change.")
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
func (w *writing) replace(ctx context.Context, op string, s *spot, mode uint32) (uint64, error) {
	folder := int(s.folder.Fd())
	name := ".osaurus-" + rand.Text()
	fd, err := unix.Openat(folder, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	size, err := w.fill(f)
	if err == nil {
		err = setMode(f, os.FileMode(mode))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && len(w.header.IfSha256) > 0 {
		_, _, err = w.before(ctx, op, s) // again, because receiving may have taken a while
	}
	if err == nil && w.header.IfAbsent {
		err = unix.Renameat2(folder, name, folder, s.name, unix.RENAME_NOREPLACE)
	} else if err == nil {
		err = unix.Renameat(folder, name, folder, s.name)
	}
	if err != nil {
		_ = unix.Unlinkat(folder, name, 0)
	}
	return size, err
}

// append writes to the end of the file.
func (w *writing) append(s *spot, mode uint32) (uint64, error) {
	f, err := lookUp(int(s.folder.Fd()), s.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return 0, err
	}
	_, err = w.fill(f)
	if err == nil {
		err = f.Sync()
	}
	is, failed := infoOf(f)
	return is.GetSize(), errors.Join(err, failed, f.Close())
}

// fill writes the content to a file.
func (w *writing) fill(f *os.File) (n uint64, err error) {
	size := w.header.Size
	for buffer := make([]byte, min(size, protocol.FileChunk)); n < size; n += uint64(len(buffer)) {
		buffer = buffer[:min(size-n, protocol.FileChunk)]
		if _, err := io.ReadFull(w.content, buffer); err != nil { // the sender has gone
			return n, fault.Newf(fault.Unavailable, "write", shown(w.header.File), "the content ended after %d bytes", n)
		}
		if _, err := f.Write(buffer); err != nil {
			return n, err
		}
	}
	return n, nil
}
