package fs

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// The types of replies that differ between systems in go-fuse, as Linux lays them out.
type (
	linuxAttr struct {
		Ino, Size, Blocks, Atime, Mtime, Ctime       uint64
		Atimensec, Mtimensec, Ctimensec, Mode, Nlink uint32
		Owner                                        fuse.Owner
		Rdev, Blksize, Flags                         uint32
	}
	linuxEntry struct {
		NodeID, Generation, EntryValid, AttrValid uint64
		EntryValidNsec, AttrValidNsec             uint32
		Attr                                      linuxAttr
	}
	linuxAttrOut struct {
		AttrValid            uint64
		AttrValidNsec, Dummy uint32
		Attr                 linuxAttr
	}
	linuxDirent struct {
		Ino, Off      uint64
		NameLen, Kind uint32
	}
)

func attrForLinux(a *fuse.Attr) linuxAttr {
	return linuxAttr{a.Ino, a.Size, a.Blocks, a.Atime, a.Mtime, a.Ctime, a.Atimensec, a.Mtimensec, a.Ctimensec, a.Mode, a.Nlink, a.Owner, a.Rdev, a.Blksize, 0}
}

func entryForLinux(e *fuse.EntryOut) linuxEntry {
	return linuxEntry{e.NodeId, e.Generation, e.EntryValid, e.AttrValid, e.EntryValidNsec, e.AttrValidNsec, attrForLinux(&e.Attr)}
}

// exchange is a request that is being handled, and its reply.
type exchange struct {
	*session
	op    opcode
	in    [][]byte // the first part holds all but the data of a WRITE
	names []string // two at most
	space [][]byte // for the reply, after its header
	room  int      // bytes of space
	reply []byte   // unless it is in space already
	read  int      // bytes of the reply that are
}

// put appends a value to the reply.
func put[T any](m *exchange, v T) {
	m.reply = append(m.reply, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
}

// do serves a request and returns the length of its reply.
func (s *session) do(h header, request, reply [][]byte, space int) int {
	o := h.op.operation()
	m := &exchange{session: s, op: h.op, in: request}
	if rest := request[0][o.size:]; h.op != opWrite && h.op != opBatchForget {
		m.names = append(strings.Split(string(bytes.TrimSuffix(rest, []byte{0})), "\x00"), "")
	}
	if !o.silent {
		m.space, m.room = after(reply, outHeaderSize), space-outHeaderSize
	}
	st := m.serve()
	if st.Ok() && len(m.reply) > m.room {
		st = fuse.EIO
	}
	if !st.Ok() || o.silent {
		return refuse(h, unix.Errno(st), reply, space)
	}
	scatter(m.space, m.reply)
	return answer(h, 0, reply, outHeaderSize+len(m.reply)+m.read)
}

// named handles a request about a name that is answered with its file.
func named[In any](m *exchange, f func(<-chan struct{}, *In, string, *fuse.EntryOut) fuse.Status) fuse.Status {
	in, out := argument[In](m.in), fuse.EntryOut{}
	st := f(nil, &in, m.names[0], &out)
	put(m, entryForLinux(&out))
	return st
}

// answered handles a request whose reply is the same on all systems.
func answered[In, Out any](m *exchange, f func(<-chan struct{}, *In, *Out) fuse.Status) fuse.Status {
	in, out := argument[In](m.in), *new(Out)
	st := f(nil, &in, &out)
	put(m, out)
	return st
}

// done handles a request without a reply but its status.
func done[In any](m *exchange, f func(<-chan struct{}, *In) fuse.Status) fuse.Status {
	in := argument[In](m.in)
	return f(nil, &in)
}

func (m *exchange) serve() (st fuse.Status) {
	s, h := m.files, argument[fuse.InHeader](m.in)
	switch m.op {
	case opInit:
		m.init()
	case opDestroy:
	case opLookup:
		return named(m, s.Lookup)
	case opMknod:
		return named(m, s.Mknod)
	case opMkdir:
		return named(m, s.Mkdir)
	case opLink:
		return named(m, s.Link)
	case opSymlink:
		return named(m, func(c <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
			return s.Symlink(c, in, m.names[1], name, out)
		})
	case opUnlink:
		return s.Unlink(nil, &h, m.names[0])
	case opRmdir:
		return s.Rmdir(nil, &h, m.names[0])
	case opRename, opRename2:
		in := argument[fuse.RenameIn](m.in)
		if m.op == opRename {
			in.Flags = 0
		}
		return s.Rename(nil, &in, m.names[0], m.names[1])
	case opReadlink:
		target, st := s.Readlink(nil, &h)
		m.reply = append(m.reply, target...)
		return st
	case opGetAttr, opSetAttr:
		return m.attributes()
	case opOpen:
		return answered(m, s.Open)
	case opOpenDir:
		return answered(m, s.OpenDir)
	case opCreate:
		in, out := argument[fuse.CreateIn](m.in), fuse.CreateOut{}
		st = s.Create(nil, &in, m.names[0], &out)
		put(m, entryForLinux(&out.EntryOut))
		put(m, out.OpenOut)
		return st
	case opForget:
		in := argument[fuse.ForgetIn](m.in)
		s.Forget(in.NodeId, in.Nlookup)
	case opBatchForget:
		const size = 16 // node and look-ups
		for b := m.in[0][m.op.operation().size:]; len(b) >= size; b = b[size:] {
			s.Forget(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]))
		}
	case opRelease, opReleaseDir:
		m.removeHandle(argument[fuse.ReleaseIn](m.in).Fh)
	default:
		return m.data()
	}
	return fuse.OK
}

func (m *exchange) attributes() (st fuse.Status) {
	var out fuse.AttrOut
	if m.op == opGetAttr {
		in := argument[fuse.GetAttrIn](m.in)
		st = m.files.GetAttr(nil, &in, &out)
	} else {
		in := fuse.SetAttrIn{SetAttrInCommon: argument[fuse.SetAttrInCommon](m.in)}
		st = m.files.SetAttr(nil, &in, &out)
	}
	put(m, linuxAttrOut{out.AttrValid, out.AttrValidNsec, 0, attrForLinux(&out.Attr)})
	return st
}

// data handles requests about the content of open files and folders, and of the disk.
func (m *exchange) data() fuse.Status {
	switch m.op {
	case opRead:
		in := argument[fuse.ReadIn](m.in)
		read, st := m.files.Read(nil, &in, nil)
		if !st.Ok() {
			return st
		}
		defer read.Done()
		m.read, st = read.(*readResult).Readv(first(m.space, min(int(in.Size), m.room)))
		return st
	case opWrite:
		in := argument[fuse.WriteIn](m.in)
		n, st := m.files.Writev(nil, &in, m.in[1:])
		put(m, fuse.WriteOut{Size: n})
		return st
	case opReadDir, opReadDirPlus:
		return m.list()
	case opFsync, opFsyncDir:
		return done(m, m.files.Fsync)
	case opFallocate:
		return done(m, m.files.Fallocate)
	case opLseek:
		return answered(m, m.files.Lseek)
	case opCopyFileRange:
		in := argument[fuse.CopyFileRangeIn](m.in)
		n, st := m.files.CopyFileRange(nil, &in)
		put(m, fuse.WriteOut{Size: n})
		return st
	case opStatFS:
		return answered(m, m.files.StatFs)
	}
	return fuse.ENOSYS
}

// list lists a folder. Each entry is padded to a multiple of eight bytes.
func (m *exchange) list() fuse.Status {
	in := argument[fuse.ReadIn](m.in)
	most := min(int(in.Size), m.room)
	m.reply = make([]byte, 0, most)
	err := m.session.list(&in, func(h *handle, e fuse.DirEntry) bool {
		size := int(unsafe.Sizeof(linuxDirent{})) + (len(e.Name)+7)&^7
		if m.op == opReadDirPlus {
			size += int(unsafe.Sizeof(linuxEntry{}))
		}
		if len(m.reply)+size > most {
			return false
		}
		if m.op == opReadDirPlus {
			var out fuse.EntryOut
			if e.Name != "." && e.Name != ".." {
				_, _ = m.lookup(h.node, h.file, e.Name, &in.Caller, &out)
			}
			put(m, entryForLinux(&out))
		}
		put(m, linuxDirent{e.Ino, e.Off, uint32(len(e.Name)), e.Mode >> 12 & 0xf})
		m.reply = append(m.reply, e.Name...)
		m.reply = append(m.reply, make([]byte, (8-len(e.Name)%8)%8)...)
		return true
	})
	return status(err)
}

// The capabilities that the guest may use, of FUSE_INIT.
const (
	capAsyncRead, capAtomicTrunc, capBigWrites           = 1 << 0, 1 << 3, 1 << 5
	capAutoInvalData, capReadDirPlus, capReadDirPlusAuto = 1 << 12, 1 << 13, 1 << 14
	capAsyncDIO, capParallelDirOps, capMaxPages          = 1 << 15, 1 << 18, 1 << 22
	// There are no set-user-ID bits to clear, so capKillPrivV2 is free and saves the guest a GETXATTR
	// for each write.
	capCacheSymlinks, capKillPrivV2 = 1 << 23, 1 << 28

	// linuxPage is the page of the guest, in which it counts the size of a request. With larger ones,
	// requests are smaller.
	linuxPage = 4096
	// fuseMinor is the version whose messages these are.
	fuseMinor = 31
)

// init answers FUSE_INIT.
func (m *exchange) init() {
	in := argument[fuse.InitIn](m.in)
	caps := uint32(capAsyncRead | capAtomicTrunc | capBigWrites | capAutoInvalData | capReadDirPlus | capReadDirPlusAuto |
		capAsyncDIO | capParallelDirOps | capMaxPages | capKillPrivV2)
	// A link's target never changes. But without birth times, a new link may be taken for an old one.
	if m.dev.rules.root.born != 0 {
		caps |= capCacheSymlinks
	}
	// Where attributes expire at once, the guest would ask at each read. There cached data is checked at open.
	if m.policy != vm.OwnershipSubtree {
		caps &^= capAutoInvalData
	}
	put(m, fuse.InitOut{
		Major: fuseMajor, Minor: min(in.Minor, fuseMinor), MaxReadAhead: min(in.MaxReadAhead, maxData), Flags: in.Flags & caps,
		MaxBackground: maxBackground, CongestionThreshold: maxBackground * 3 / 4, MaxWrite: maxData, TimeGran: 1, MaxPages: maxData / linuxPage,
	})
}
