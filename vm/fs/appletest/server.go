//go:build linux

// Package appletest gives a share the rules of Apple's file server, for tests on Linux.
//
// It keeps those that were reported of Virtualization.framework:
//
//   - The guest caches attributes for a second, and with them the owner that another user was
//     shown (lima #1513, #4053, UTM #7103).
//
//   - chown succeeds and does nothing (vz #61, UTM #7103).
//
//   - A file or folder whose mode closes it to its owner on the Mac is closed to all guest users,
//     root too (podman #23018 and #24725, docker/for-mac #7662).
//
//   - FIFOs, sockets and devices are not supported (colima #997).
//
//   - Names that differ in case are one name, as APFS is by default.
//
//   - Inode numbers are synthetic, and a file's can change when it gets another name (podman #23061).
//
//   - Files whose content is only in iCloud cannot be read: EDEADLK (lima #4123).
//
// Owners are vm.OwnershipAsker's. Hard links that sometimes cannot be opened are missing: nobody
// says when (apple/containerization #509).
package appletest

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// cached is how long the guest caches attributes.
	cached = time.Second
	// Evicted ends the names of files whose content is only in iCloud.
	Evicted = ".evicted"
)

// server changes what another file system answers.
type server struct {
	fuse.RawFileSystem

	mu      sync.Mutex
	names   map[place]string  // as they are written, of files that the guest has seen
	links   map[uint64]uint64 // how many names a node has got, if any
	evicted map[uint64]bool   // nodes
}

// place is a name in a folder, in small letters.
type place struct {
	folder uint64
	name   string
}

// Wrap returns fs with Apple's rules.
func Wrap(fs fuse.RawFileSystem) fuse.RawFileSystem {
	return &server{RawFileSystem: fs, names: map[place]string{}, links: map[uint64]uint64{}, evicted: map[uint64]bool{}}
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
		if strings.HasSuffix(name, Evicted) {
			s.evicted[out.NodeId] = true
		}
		s.mu.Unlock()
		s.number(out.NodeId, &out.Attr)
		out.SetAttrTimeout(cached)
		out.SetEntryTimeout(cached)
	}
	return st
}

// number changes the inode number of a node that has got other names.
func (s *server) number(node uint64, a *fuse.Attr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Ino += s.links[node] << 48
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
	s.number(in.NodeId, &out.Attr)
	out.SetTimeout(cached)
	return st
}

func (s *server) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	in.Valid &^= fuse.FATTR_UID | fuse.FATTR_GID
	st := s.RawFileSystem.SetAttr(cancel, in, out)
	s.number(in.NodeId, &out.Attr)
	out.SetTimeout(cached)
	return st
}

func (s *server) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if st := s.allowed(&in.InHeader, canChange); !st.Ok() {
		return st
	}
	name = s.written(in.NodeId, name)
	st := s.RawFileSystem.Link(cancel, in, name, out)
	if st.Ok() {
		s.mu.Lock()
		s.links[out.NodeId]++
		s.mu.Unlock()
	}
	return s.entered(in.NodeId, name, out, st)
}

func (s *server) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	s.mu.Lock()
	evicted := s.evicted[in.NodeId]
	s.mu.Unlock()
	if evicted {
		return nil, fuse.Status(unix.EDEADLK)
	}
	return s.RawFileSystem.Read(cancel, in, buf)
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
