package ext4

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// node is an inode.
type node struct {
	ino      uint32
	mode     uint16 // kind and permissions
	uid, gid uint32
	mtime    time.Time
	links    int
	size     int64
	data     run    // the content
	block    area   // extents, device number or the target of a short link
	mapped   bool   // block holds extents
	xattrs   []byte // encoded

	parent   *node            // of a directory
	children map[string]*node // of a directory
}

// area is the inode's i_block field.
type area [60]byte

// The kinds of file, as in st_mode.
const (
	kindFIFO    = 0o010000
	kindChar    = 0o020000
	kindDir     = 0o040000
	kindBlock   = 0o060000
	kindFile    = 0o100000
	kindSymlink = 0o120000
	kindMask    = 0o170000
	permissions = 0o7777
)

func (n *node) kind() uint16 { return n.mode & kindMask }

// entryType returns the kind as directory entries encode it.
func (n *node) entryType() byte {
	return map[uint16]byte{kindFile: 1, kindDir: 2, kindChar: 3, kindBlock: 4, kindFIFO: 5, kindSymlink: 7}[n.kind()]
}

// setDevice sets the device number, in the old form if it fits, like the kernel.
func (n *node) setDevice(major, minor uint32) {
	if major < 256 && minor < 256 {
		le.PutUint32(n.block[0:], major<<8|minor)
	} else {
		le.PutUint32(n.block[4:], minor&0xff|major<<8|(minor&^0xff)<<12)
	}
}

// run is a range of blocks.
type run struct{ first, count uint32 }

const (
	maxExtent     = 1 << 15 // blocks
	inodeExtents  = 4
	maxFile       = inodeExtents * maxExtent * blockSize // 512 MiB
	extentSize    = 12
	extentMagic   = 0xf30a
	extentMapped  = 0x80000 // inode flag: block holds extents
	inodeSize     = 256
	extraSize     = 32 // of the fields after the first 128 bytes
	xattrsInInode = inodeSize - 128 - extraSize
)

// setExtents maps the content: an extent for each part of the run.
func (n *node) setExtents() {
	if kind := n.kind(); kind != kindFile && kind != kindDir && (kind != kindSymlink || n.data.count == 0) {
		return
	}
	n.mapped = true
	count := 0
	for done := uint32(0); done < n.data.count; count++ {
		part := min(n.data.count-done, maxExtent)
		e := n.block[extentSize*(1+count):]
		le.PutUint32(e[0:], done)
		le.PutUint16(e[4:], uint16(part))
		le.PutUint32(e[8:], n.data.first+done)
		done += part
	}
	le.PutUint16(n.block[0:], extentMagic)
	le.PutUint16(n.block[2:], uint16(count))
	le.PutUint16(n.block[4:], inodeExtents)
}

// encode writes the inode as an entry of the inode table.
func (n *node) encode(b []byte) {
	seconds, fraction := timestamp(n.mtime)
	le.PutUint16(b[0:], n.mode)
	le.PutUint16(b[2:], uint16(n.uid))
	le.PutUint32(b[4:], uint32(n.size))
	for _, at := range []int{8, 12, 16, 144} { // accessed, changed, modified, created
		le.PutUint32(b[at:], seconds)
	}
	for _, at := range []int{132, 136, 140, 148} {
		le.PutUint32(b[at:], fraction)
	}
	le.PutUint16(b[24:], uint16(n.gid))
	le.PutUint16(b[26:], uint16(n.links))
	const sectors = blockSize / 512
	le.PutUint32(b[28:], n.data.count*sectors)
	if n.mapped {
		le.PutUint32(b[32:], extentMapped)
	}
	copy(b[40:], n.block[:])
	le.PutUint32(b[108:], uint32(n.size>>32))
	le.PutUint16(b[120:], uint16(n.uid>>16))
	le.PutUint16(b[122:], uint16(n.gid>>16))
	le.PutUint16(b[128:], extraSize)
	copy(b[128+extraSize:], n.xattrs)
}

// timestamp splits a time into the two fields of an inode: 32 bits of seconds, then
// two more bits of them and thirty of nanoseconds.
func timestamp(t time.Time) (seconds, fraction uint32) {
	s := t.Unix()
	return uint32(s), uint32((s-int64(int32(s)))>>32)&3 | uint32(t.Nanosecond())<<2
}

// entries returns the content of a directory.
func (n *node) entries() []byte {
	var b []byte
	last := 0 // where the last entry starts
	add := func(name string, child *node) {
		const head = 8
		length := (head + len(name) + 3) &^ 3
		if room := blockSize - len(b)%blockSize; len(b)%blockSize != 0 && room < length {
			b = append(b, make([]byte, room)...)
			le.PutUint16(b[last+4:], uint16(len(b)-last))
		}
		last = len(b)
		b = append(b, make([]byte, length)...)
		le.PutUint32(b[last:], child.ino)
		le.PutUint16(b[last+4:], uint16(length))
		b[last+6], b[last+7] = byte(len(name)), child.entryType()
		copy(b[last+head:], name)
	}
	add(".", n)
	add("..", n.parent)
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		add(name, n.children[name])
	}
	b = append(b, make([]byte, -len(b)&(blockSize-1))...)
	le.PutUint16(b[last+4:], uint16(len(b)-last)) // the last one ends with the block
	return b
}

var le = binary.LittleEndian
