package fs

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// protocol parses the requests of a Linux guest and encodes the replies, for streams. go-fuse's own
// server does that for VirtioFS, but on macOS it speaks the dialect of macFUSE. Extended
// attributes are not served, so the guest's kernel stops asking for them.
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
		for name := range strings.SplitSeq(string(bytes.TrimSuffix(rest, []byte{0})), "\x00") {
			m.names = append(m.names, name)
		}
		if m.names = append(m.names, ""); len(m.names) > 2 {
			m.names = m.names[:2]
		}
	}
	st := p.names(m)
	if st == fuse.ENOSYS {
		st = p.open(m)
	}
	if st == fuse.ENOSYS {
		st = p.data(m)
	}
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

// names handles requests about names and attributes.
func (p *protocol) names(m *exchange) (st fuse.Status) {
	h := argument[fuse.InHeader](m.in)
	var entry fuse.EntryOut
	switch m.op {
	case opLookup:
		st = p.files.Lookup(nil, &h, m.names[0], &entry)
	case opMknod:
		in := argument[fuse.MknodIn](m.in)
		st = p.files.Mknod(nil, &in, m.names[0], &entry)
	case opMkdir:
		in := argument[fuse.MkdirIn](m.in)
		st = p.files.Mkdir(nil, &in, m.names[0], &entry)
	case opSymlink:
		st = p.files.Symlink(nil, &h, m.names[1], m.names[0], &entry)
	case opLink:
		in := argument[fuse.LinkIn](m.in)
		st = p.files.Link(nil, &in, m.names[0], &entry)
	case opUnlink:
		return p.files.Unlink(nil, &h, m.names[0])
	case opRmdir:
		return p.files.Rmdir(nil, &h, m.names[0])
	case opRename, opRename2:
		in := argument[fuse.RenameIn](m.in)
		if m.op == opRename {
			in.Flags = 0
		}
		return p.files.Rename(nil, &in, m.names[0], m.names[1])
	case opReadlink:
		target, st := p.files.Readlink(nil, &h)
		m.reply = append(m.reply, target...)
		return st
	case opGetAttr, opSetAttr:
		return p.attributes(m)
	default:
		return fuse.ENOSYS
	}
	put(m, entryForLinux(&entry))
	return st
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

// open handles requests that open, close and forget.
func (p *protocol) open(m *exchange) (st fuse.Status) {
	var out fuse.OpenOut
	switch m.op {
	case opInit:
		p.init(m)
		return fuse.OK
	case opOpen, opOpenDir:
		open := p.files.Open
		if m.op == opOpenDir {
			open = p.files.OpenDir
		}
		in := argument[fuse.OpenIn](m.in)
		st = open(nil, &in, &out)
	case opCreate:
		in, created := argument[fuse.CreateIn](m.in), fuse.CreateOut{}
		st = p.files.Create(nil, &in, m.names[0], &created)
		put(m, entryForLinux(&created.EntryOut))
		out = created.OpenOut
	case opRelease, opReleaseDir:
		in := argument[fuse.ReleaseIn](m.in)
		p.files.Release(nil, &in)
		return fuse.OK
	case opForget:
		in := argument[fuse.ForgetIn](m.in)
		p.files.Forget(in.NodeId, in.Nlookup)
		return fuse.OK
	case opBatchForget:
		const size = 16 // node and look-ups
		for b := m.in[0][opBatchForget.operation().size:]; len(b) >= size; b = b[size:] {
			p.files.Forget(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]))
		}
		return fuse.OK
	case opDestroy:
		return fuse.OK
	default:
		return fuse.ENOSYS
	}
	put(m, out)
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
		b, st := read.Bytes(m.reply[:min(int(in.Size), cap(m.reply))])
		m.reply = b
		return st
	case opWrite:
		in := argument[fuse.WriteIn](m.in)
		n, st := p.files.Writev(nil, &in, m.in[1:])
		put(m, fuse.WriteOut{Size: n})
		return st
	case opReadDir, opReadDirPlus:
		return p.list(m)
	case opFsync, opFsyncDir:
		in := argument[fuse.FsyncIn](m.in)
		return p.files.Fsync(nil, &in)
	case opFallocate:
		in := argument[fuse.FallocateIn](m.in)
		return p.files.Fallocate(nil, &in)
	case opLseek:
		in, out := argument[fuse.LseekIn](m.in), fuse.LseekOut{}
		st := p.files.Lseek(nil, &in, &out)
		put(m, out)
		return st
	case opCopyFileRange:
		in := argument[fuse.CopyFileRangeIn](m.in)
		n, st := p.files.CopyFileRange(nil, &in)
		put(m, fuse.WriteOut{Size: n})
		return st
	case opStatFS:
		in, out := argument[fuse.InHeader](m.in), fuse.StatfsOut{}
		st := p.files.StatFs(nil, &in, &out)
		put(m, out)
		return st
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
