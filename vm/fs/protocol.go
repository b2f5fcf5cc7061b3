package fs

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// protocol parses the requests of a Linux guest and encodes the replies, for streams. go-fuse's own
// server does that for VirtioFS, but on macOS it speaks the dialect of macFUSE.
type protocol struct{ files *session }

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
	op    opcode
	in    [][]byte
	names []string // two at most
	space []byte   // for the reply
	reply []byte   // the beginning of space, after the header
}

// put appends a value to the reply.
func put[T any](m *exchange, v T) {
	m.reply = append(m.reply, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
}

// HandleRequest handles a request, whose first part holds all but the data of a WRITE.
func (p *protocol) HandleRequest(in, out [][]byte) (int, fuse.Status) {
	m := &exchange{op: readHeader(in).op, in: in, space: out[0]}
	m.reply = m.space[outHeaderSize:outHeaderSize]
	if rest := in[0][m.op.operation().size:]; m.op != opWrite && m.op != opBatchForget {
		m.names = append(strings.Split(string(bytes.TrimSuffix(rest, []byte{0})), "\x00"), "")
	}
	st := p.handle(m)
	switch {
	case m.op.operation().silent:
		return 0, fuse.OK
	case !st.Ok():
		return 0, st
	}
	n := outHeaderSize + len(m.reply)
	binary.LittleEndian.PutUint32(m.space, uint32(n))
	binary.LittleEndian.PutUint32(m.space[4:], 0)
	binary.LittleEndian.PutUint64(m.space[8:], readHeader(in).unique)
	return n, fuse.OK
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

func (p *protocol) handle(m *exchange) (st fuse.Status) {
	s, h := p.files, argument[fuse.InHeader](m.in)
	switch m.op {
	case opInit:
		p.init(m)
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
		return p.attributes(m)
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
		in := argument[fuse.ReleaseIn](m.in)
		s.Release(nil, &in)
	default:
		return p.data(m)
	}
	return fuse.OK
}

func (p *protocol) attributes(m *exchange) (st fuse.Status) {
	var out fuse.AttrOut
	if m.op == opGetAttr {
		in := argument[fuse.GetAttrIn](m.in)
		st = p.files.GetAttr(nil, &in, &out)
	} else {
		in := fuse.SetAttrIn{SetAttrInCommon: argument[fuse.SetAttrInCommon](m.in)}
		st = p.files.SetAttr(nil, &in, &out)
	}
	put(m, linuxAttrOut{out.AttrValid, out.AttrValidNsec, 0, attrForLinux(&out.Attr)})
	return st
}

// data handles requests about the content of open files and folders, and of the disk.
func (p *protocol) data(m *exchange) fuse.Status {
	switch m.op {
	case opRead:
		in := argument[fuse.ReadIn](m.in)
		read, st := p.files.Read(nil, &in, nil)
		if !st.Ok() {
			return st
		}
		defer read.Done()
		m.reply, st = read.Bytes(m.reply[:min(int(in.Size), cap(m.reply))])
		return st
	case opWrite:
		in := argument[fuse.WriteIn](m.in)
		n, st := p.files.Writev(nil, &in, m.in[1:])
		put(m, fuse.WriteOut{Size: n})
		return st
	case opReadDir, opReadDirPlus:
		return p.list(m)
	case opFsync, opFsyncDir:
		return done(m, p.files.Fsync)
	case opFallocate:
		return done(m, p.files.Fallocate)
	case opLseek:
		return answered(m, p.files.Lseek)
	case opCopyFileRange:
		in := argument[fuse.CopyFileRangeIn](m.in)
		n, st := p.files.CopyFileRange(nil, &in)
		put(m, fuse.WriteOut{Size: n})
		return st
	case opStatFS:
		return answered(m, p.files.StatFs)
	}
	return fuse.ENOSYS
}

// list lists a folder. Each entry is padded to a multiple of eight bytes.
func (p *protocol) list(m *exchange) fuse.Status {
	in := argument[fuse.ReadIn](m.in)
	most := min(int(in.Size), cap(m.reply))
	err := p.files.list(&in, func(h *handle, e fuse.DirEntry) bool {
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
				_, _ = p.files.lookup(h.node, h.file, e.Name, &in.Caller, &out)
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
	capCacheSymlinks, capKillPrivV2                      = 1 << 23, 1 << 28

	// linuxPage is the page of the guest, in which it counts the size of a request. With larger ones,
	// requests are smaller.
	linuxPage = 4096
	// fuseMinor is the version whose messages these are.
	fuseMinor = 31
)

// init answers FUSE_INIT.
func (p *protocol) init(m *exchange) {
	in := argument[fuse.InitIn](m.in)
	caps := uint32(capAsyncRead | capAtomicTrunc | capBigWrites | capAutoInvalData | capReadDirPlus | capReadDirPlusAuto |
		capAsyncDIO | capParallelDirOps | capMaxPages | capKillPrivV2)
	if p.files.dev.rules.root.born != 0 {
		caps |= capCacheSymlinks
	}
	put(m, fuse.InitOut{
		Major: fuseMajor, Minor: min(in.Minor, fuseMinor), MaxReadAhead: min(in.MaxReadAhead, maxData), Flags: in.Flags & caps,
		MaxBackground: maxBackground, CongestionThreshold: maxBackground * 3 / 4, MaxWrite: maxData, TimeGran: 1, MaxPages: maxData / linuxPage,
	})
}
