//go:build linux

// Package appletest gives a share the rules of Apple's file server, for tests on Linux.
//
// It keeps those that were reported of Virtualization.framework:
//
//   - The guest caches attributes for a second, and with them the owner that another user was
//     shown (lima #1513, #4053, UTM #7103).
//   - chown succeeds and does nothing (vz #61, UTM #7103).
//   - A file or folder whose mode closes it to its owner on the Mac is closed to all guest users,
//     root too (podman #23018 and #24725, docker/for-mac #7662).
//   - FIFOs, sockets and devices are not supported (colima #997).
//   - Names that differ in case are one name, as APFS is by default.
//
// Owners are vm.OwnershipAsker's. Locks that fail (lima #4123) and links with own inodes are missing.
package appletest

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// cached is how long the guest caches attributes.
const cached = time.Second

// server changes what another file system answers.
type server struct {
	fuse.RawFileSystem

	mu    sync.Mutex
	names map[place]string // as they are written, of files that the guest has seen
}

// place is a name in a folder, in small letters.
type place struct {
	folder uint64
	name   string
}

// Wrap returns fs with Apple's rules.
func Wrap(fs fuse.RawFileSystem) fuse.RawFileSystem {
	return &server{RawFileSystem: fs, names: map[place]string{}}
}

// written returns a name as it was first written.
func (s *server) written(folder uint64, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.names[place{folder, strings.ToLower(name)}], name)
}

// entered notes the name of a file that the guest has seen, and extends the answer's time.
func (s *server) entered(folder uint64, name string, out *fuse.EntryOut, st fuse.Status) fuse.Status {
	if st.Ok() && out.NodeId != 0 {
		s.mu.Lock()
		s.names[place{folder, strings.ToLower(name)}] = name
		s.mu.Unlock()
		out.SetAttrTimeout(cached)
		out.SetEntryTimeout(cached)
	}
	return st
}

// allowed checks the permissions of the Mac's user, who owns every file.
func (s *server) allowed(in *fuse.InHeader, need uint32) fuse.Status {
	var out fuse.AttrOut
	st := s.RawFileSystem.GetAttr(nil, &fuse.GetAttrIn{InHeader: *in}, &out)
	if st.Ok() && out.Mode&need != need {
		return fuse.EACCES
	}
	return st
}

const canRead, canWrite, canChange = unix.S_IRUSR, unix.S_IWUSR, unix.S_IWUSR | unix.S_IXUSR

func (s *server) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if st := s.allowed(in, unix.S_IXUSR); !st.Ok() {
		return st
	}
	name = s.written(in.NodeId, name)
	return s.entered(in.NodeId, name, out, s.RawFileSystem.Lookup(cancel, in, name, out))
}

func (s *server) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	st := s.RawFileSystem.GetAttr(cancel, in, out)
	out.SetTimeout(cached)
	return st
}

func (s *server) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	in.Valid &^= fuse.FATTR_UID | fuse.FATTR_GID
	st := s.RawFileSystem.SetAttr(cancel, in, out)
	out.SetTimeout(cached)
	return st
}

func (s *server) Mknod(_ <-chan struct{}, _ *fuse.MknodIn, _ string, _ *fuse.EntryOut) fuse.Status {
	return fuse.Status(unix.EOPNOTSUPP)
}

func (s *server) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	need := map[uint32]uint32{unix.O_RDONLY: canRead, unix.O_WRONLY: canWrite, unix.O_RDWR: canRead | canWrite}[in.Flags&unix.O_ACCMODE]
	if st := s.allowed(&in.InHeader, need); !st.Ok() {
		return st
	}
	return s.RawFileSystem.Open(cancel, in, out)
}

func (s *server) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if st := s.allowed(&in.InHeader, canRead); !st.Ok() {
		return st
	}
	return s.RawFileSystem.OpenDir(cancel, in, out)
}

func (s *server) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if st := s.allowed(&in.InHeader, canChange); !st.Ok() {
		return st
	}
	name = s.written(in.NodeId, name)
	return s.entered(in.NodeId, name, &out.EntryOut, s.RawFileSystem.Create(cancel, in, name, out))
}

func (s *server) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if st := s.allowed(&in.InHeader, canChange); !st.Ok() {
		return st
	}
	name = s.written(in.NodeId, name)
	return s.entered(in.NodeId, name, out, s.RawFileSystem.Mkdir(cancel, in, name, out))
}

func (s *server) Unlink(cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	if st := s.allowed(in, canChange); !st.Ok() {
		return st
	}
	return s.RawFileSystem.Unlink(cancel, in, s.written(in.NodeId, name))
}

func (s *server) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	from = s.written(in.NodeId, from)
	s.mu.Lock()
	delete(s.names, place{in.NodeId, strings.ToLower(from)})
	s.mu.Unlock()
	return s.RawFileSystem.Rename(cancel, in, from, to)
}
