//go:build linux

package mount

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
)

const (
	// changesAtOnce is how many entries of a folder are read at a time.
	changesAtOnce = 512
	// batchBytes bounds one message of changes.
	batchBytes = 128 << 10
	// changeBytes is what a change takes in a message beside its paths.
	changeBytes = 64
)

// Changes sends what a user has changed in a mount: each folder before what is in it. It ends one
// after the limit, so that the host knows.
func (m *Manager) Changes(user, name string, send func([]*guestpb.Change) error) error {
	upper, err := m.upper(user, name)
	if err != nil {
		return err
	}
	defer upper.Close()
	b := batch{send: send, left: protocol.MaxChanges + 1}
	for todo := []string{"."}; len(todo) > 0 && b.left > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := b.folder(upper, at)
		if err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return b.flush()
}

// upper opens the upper layer of a mount.
func (m *Manager) upper(user, name string) (*os.File, error) {
	f, err := os.Open(m.rooms.Upper(user, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Newf(fault.NotFound, "look for changes", name, "it was never mounted for review").Advise("See which mounts there are.")
	}
	return f, err
}

// batch collects changes for a message.
type batch struct {
	send func([]*guestpb.Change) error
	list []*guestpb.Change
	size int
	left int // until the limit
}

func (b *batch) add(c *guestpb.Change) error {
	b.list, b.left = append(b.list, c), b.left-1
	if b.size += changeBytes + len(c.Path) + len(c.Target); b.size < batchBytes {
		return nil
	}
	return b.flush()
}

func (b *batch) flush() error {
	if len(b.list) == 0 {
		return nil
	}
	list := b.list
	b.list, b.size = nil, 0
	return b.send(list)
}

// folder adds a folder and the files in it, and returns the folders in it.
func (b *batch) folder(upper *os.File, at string) (below []string, err error) {
	dir, err := room.OpenBeneath(upper, at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, nil // gone meanwhile
	}
	defer dir.Close()
	if at != "." {
		c, err := describe(dir, "", at)
		if err != nil {
			return nil, nil
		}
		var opaque [1]byte
		if n, err := unix.Fgetxattr(int(dir.Fd()), "trusted.overlay.opaque", opaque[:]); err == nil && n == 1 && opaque[0] == 'y' {
			c.Kind = guestpb.Change_KIND_REPLACED
		}
		if err := b.add(c); err != nil {
			return nil, err
		}
	}
	for b.left > len(below) { // each folder is a change, too
		names, err := dir.Readdirnames(changesAtOnce)
		if err != nil {
			if err != io.EOF {
				return below, err
			}
			break
		}
		for _, name := range names {
			p := path.Join(at, name)
			c, err := describe(dir, name, p)
			if err != nil {
				continue // gone meanwhile
			}
			if c.Kind == guestpb.Change_KIND_FOLDER {
				below = append(below, p)
				continue
			}
			if err := b.add(c); err != nil {
				return below, err
			}
		}
	}
	return below, nil
}

// describe returns the change that a file of the upper layer is. Without a name it is dir itself.
func describe(dir *os.File, name, p string) (*guestpb.Change, error) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Statx(int(dir.Fd()), name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return nil, err
	}
	nanos := func(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }
	c := &guestpb.Change{
		Path: []byte(p), Mode: uint32(st.Mode) & 0o7777, Size: st.Size,
		ModifiedUnixNano: nanos(st.Mtime), MadeUnixNano: nanos(st.Btime), ChangedUnixNano: nanos(st.Ctime), Inode: st.Ino,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		c.Kind = guestpb.Change_KIND_FILE
	case unix.S_IFDIR:
		c.Kind = guestpb.Change_KIND_FOLDER
	case unix.S_IFLNK:
		c.Kind = guestpb.Change_KIND_LINK
		target := make([]byte, protocol.MaxPath)
		n, err := unix.Readlinkat(int(dir.Fd()), name, target)
		if err != nil {
			return nil, err
		}
		c.Target = target[:n]
	case unix.S_IFCHR:
		if st.Rdev_major == 0 && st.Rdev_minor == 0 {
			c.Kind = guestpb.Change_KIND_REMOVED
		}
	}
	return c, nil
}

// ReadChange sends the content of a changed file, and before it an empty part.
func (m *Manager) ReadChange(user, name, path string, send func([]byte) error) error {
	const op = "read changed file"
	upper, err := m.upper(user, name)
	if err != nil {
		return err
	}
	defer upper.Close()
	f, err := room.OpenBeneath(upper, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, path, fs.ErrNotExist).Advise("List the changes again.")
	}
	if err != nil {
		return fault.New(fault.Rejected, op, path, err).Advise("List the changes again.")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fault.Newf(fault.Rejected, op, path, "it is no file").Advise("List the changes again.")
	}
	if err := send(nil); err != nil {
		return err
	}
	for buf := make([]byte, protocol.Chunk); ; {
		n, err := f.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fault.New(fault.Execution, op, path, err)
		}
	}
}
