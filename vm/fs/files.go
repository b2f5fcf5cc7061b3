package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The guest's flags have Linux's numbers.
const (
	linuxAccess, linuxExclusive, linuxTruncate, linuxAppend = 0o3, 0o200, 0o1000, 0o2000
	linuxDSync, linuxSync                                   = 0o10000, 0o4010000

	renameNoReplace, renameExchange = 1, 2
)

// openFlags returns the open flags for the host. O_APPEND is left out because each WRITE has the
// current value, and O_TRUNC because the file must be checked first.
func openFlags(flags uint32) (host int, writable bool, err error) {
	access := int(flags) & linuxAccess
	if access == linuxAccess {
		return 0, false, unix.EINVAL
	}
	host = access // the same everywhere
	switch flags & linuxSync {
	case linuxSync:
		host |= unix.O_SYNC
	case linuxDSync:
		host |= unix.O_DSYNC
	}
	return host, access != unix.O_RDONLY, nil
}

func (s *session) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if s.dev.opts.Lower {
		return fuse.ENOSYS
	}
	n, err := s.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	return status(s.open(n, in.Flags, in.Uid, out))
}

func (s *session) open(n *node, flags, user uint32, out *fuse.OpenOut) error {
	host, writable, err := openFlags(flags)
	switch {
	case err != nil:
		return err
	case n.kind == unix.S_IFDIR:
		return unix.EISDIR
	case n.kind != unix.S_IFREG:
		return unix.ELOOP
	case s.dev.share.ReadOnly && (writable || flags&linuxTruncate != 0):
		return unix.EROFS
	}
	if err := s.mayOpen(user); err != nil {
		return err
	}
	var info fileInfo
	d, err := s.openFile(n, host, &info)
	if err != nil {
		return err
	}
	if flags&linuxTruncate != 0 {
		if writable {
			err = s.resize(n, d, 0)
		} else {
			err = s.truncate(n, nil, 0)
		}
		if err != nil {
			d.release()
			return err
		}
	}
	if out.Fh, err = s.openHandle(n, d, writable, user); err != nil {
		return err
	}
	if s.cacheHolds(n, &info) && flags&linuxTruncate == 0 {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	return nil
}

func (s *session) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	host, writable, err := openFlags(in.Flags)
	if err != nil {
		return status(err)
	}
	parent, dir, err := s.at(in.NodeId, name)
	if err != nil {
		return status(err)
	}
	defer dir.release()
	if err := s.mayOpen(in.Uid); err != nil {
		return status(err)
	}
	// Always O_EXCL: an existing file may be of any kind.
	var d *descriptor
	var info fileInfo
	mode := s.hostMode(0, in.Mode)
	err = s.counted(parent, dir, name, &info, func() (err error) {
		d, err = openAt(dir, name, host|unix.O_CREAT|unix.O_EXCL|unix.O_NOCTTY, mode)
		if err != nil {
			return err
		}
		if err = d.stat(&info); err == nil && info.Mode&modeBits != mode {
			// Undo this process's umask.
			if err = unix.Fchmod(d.fd, mode); err == nil {
				err = d.stat(&info)
			}
		}
		return err
	})
	if err == unix.EEXIST && in.Flags&linuxExclusive == 0 {
		n, err := s.lookup(parent, dir, name, &in.Caller, &out.EntryOut)
		if err == nil {
			if err = s.open(n, in.Flags, in.Uid, &out.OpenOut); err != nil {
				s.Forget(n.id, 1)
			}
		}
		return status(err)
	}
	var n *node
	if err == nil {
		n, err = s.entry(parent, name, &info, &in.Caller, &out.EntryOut)
	}
	if err != nil {
		d.release()
		return status(err)
	}
	if out.Fh, err = s.openHandle(n, d, writable, in.Uid); err != nil {
		s.Forget(n.id, 1) // the guest does not get this node
		return status(err)
	}
	s.cacheHolds(n, &info)
	return fuse.OK
}

// fsyncDataOnly is FUSE's flag for fdatasync.
const fsyncDataOnly = 1

func (s *session) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h, err := s.handle(in.Fh)
	if err != nil {
		return status(err)
	}
	defer h.file.release()
	if in.FsyncFlags&fsyncDataOnly != 0 {
		return status(h.file.syncData())
	}
	return status(unix.Fsync(h.file.fd))
}
