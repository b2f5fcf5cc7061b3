//go:build linux

package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

const (
	// batchBytes bounds one message of changes.
	batchBytes = 128 << 10
	// changeBytes is what a change takes in a message beside its paths.
	changeBytes = 80
)

// Changes sends what a user has changed in a mount: each folder before what is in it. It ends one
// change after the limit, so that the host notices.
func (m *Manager) Changes(ctx context.Context, q *guestpb.ChangesRequest, stream *connect.ServerStream[guestpb.ChangesResponse]) error {
	upper, err := m.upper(q.User, q.Name)
	if err != nil {
		return err
	}
	defer upper.Close()
	var list []*guestpb.Change
	size, left := 0, protocol.MaxChanges+1
	err = layers.Walk(upper, func(dir *os.File, p string) (folder bool, err error) {
		c, err := describe(dir, p)
		if err != nil {
			return false, nil // gone meanwhile
		}
		if left--; left < 0 {
			return false, io.EOF
		}
		list = append(list, c)
		if size += changeBytes + len(c.Path) + len(c.Target); size >= batchBytes {
			err = errors.Join(ctx.Err(), stream.Send(&guestpb.ChangesResponse{Changes: list}))
			list, size = nil, 0
		}
		return c.Mode&unix.S_IFMT == unix.S_IFDIR, err
	})
	if err != nil && err != io.EOF {
		return err
	}
	return stream.Send(&guestpb.ChangesResponse{Changes: list})
}

// upper opens the upper layer of a mount.
func (m *Manager) upper(user, name string) (*os.Root, error) {
	root, err := os.OpenRoot(m.rooms.Upper(user, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Newf(fault.NotFound, "look for changes", name, "it was never mounted for review").Advise("See which mounts there are.")
	}
	return root, err
}

// describe returns the change that a file in a folder of the upper layer is.
func describe(dir *os.File, p string) (*guestpb.Change, error) {
	var st unix.Statx_t
	name := path.Base(p)
	if err := unix.Statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return nil, err
	}
	nanos := func(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }
	c := &guestpb.Change{
		Path: []byte(p), Mode: uint32(st.Mode), Size: st.Size, Opaque: layers.Opaque(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)),
		ModifiedUnixNano: nanos(st.Mtime), MadeUnixNano: nanos(st.Btime), ChangedUnixNano: nanos(st.Ctime), Inode: st.Ino,
	}
	if c.Mode&unix.S_IFMT == unix.S_IFLNK {
		target := make([]byte, protocol.MaxPath)
		n, err := unix.Readlinkat(int(dir.Fd()), name, target)
		if err != nil {
			return nil, err
		}
		c.Target = target[:n]
	}
	return c, nil
}

// ReadChange sends the content of a changed file, and before it an empty part.
func (m *Manager) ReadChange(_ context.Context, q *guestpb.ReadChangeRequest, stream *connect.ServerStream[guestpb.ReadChangeResponse]) error {
	const op = "read changed file"
	path := string(q.Path)
	if err := protocol.CheckChangePath(q.Path); err != nil {
		return err
	}
	upper, err := m.upper(q.User, q.Name)
	if err != nil {
		return err
	}
	defer upper.Close()
	info, err := upper.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return fault.Newf(fault.Rejected, op, path, "it is not a file").Advise("List the changes again.")
	}
	var f *os.File
	if err == nil {
		f, err = nofollow.File(upper, path, info)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, path, fs.ErrNotExist).Advise("List the changes again.")
	}
	if err != nil {
		return fault.New(fault.Rejected, op, path, err).Advise("List the changes again.")
	}
	defer f.Close()
	if err := stream.Send(&guestpb.ReadChangeResponse{}); err != nil {
		return err
	}
	for buf := make([]byte, protocol.Chunk); ; {
		n, err := f.Read(buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fault.New(fault.Execution, op, path, err)
		}
		if err := stream.Send(&guestpb.ReadChangeResponse{Data: buf[:n]}); err != nil {
			return err
		}
	}
}
