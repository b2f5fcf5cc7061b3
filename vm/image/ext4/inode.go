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
	data     run  // where the content is
	extra    int  // blocks beside the content: extent tree, attributes
	block    area // extents, device number or the target of a short link
	mapped   bool // block holds extents
	xattrs   []xattr
	inside   []byte // attributes in the inode
	outside  uint32 // block of attributes, or 0

	parent   *node            // of a directory
	children map[string]*node // of a directory
}

// area is the inode's field of many meanings (i_block).
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

// entryType is the kind as directory entries have it.
func (n *node) entryType() byte {
	return map[uint16]byte{kindFile: 1, kindDir: 2, kindChar: 3, kindBlock: 4, kindFIFO: 5, kindSymlink: 7}[n.kind()]
}

// setDevice writes a device number: in the old form where it fits, which is
// what mke2fs and the kernel do.
func (n *node) setDevice(major, minor int64) error {
	switch {
	case major < 0 || major >= 1<<12 || minor < 0 || minor >= 1<<20:
		return rejected("device %d:%d is out of range", major, minor)
	case major < 256 && minor < 256:
		le.PutUint32(n.block[0:], uint32(major<<8|minor))
	default:
		le.PutUint32(n.block[4:], uint32(minor&0xff|major<<8|(minor&^0xff)<<12))
	}
	return nil
}

// run is a row of blocks.
type run struct{ first, count uint32 }

const (
	maxExtent     = 1 << 15 // blocks
	inodeExtents  = 4
	extentSize    = 12
	leafExtents   = (blockSize - extentSize) / extentSize
	extentMagic   = 0xf30a
	extentMapped  = 0x80000 // inode flag: block holds extents
	inodeSize     = 256
	extraSize     = 32 // of the fields after the first 128 bytes
	xattrsInInode = inodeSize - 128 - extraSize
)

// setExtents points the inode to its content. More extents than it has room
// for go to a block, which is returned and is to be written at free.
func (n *node) setExtents(free uint32) (leaf []byte) {
	if kind := n.kind(); kind != kindFile && kind != kindDir && (kind != kindSymlink || n.data.count == 0) {
		return nil
	}
	n.mapped = true
	count := int((n.data.count + maxExtent - 1) / maxExtent) // at most 128, see MaxSize
	if count <= inodeExtents {
		n.data.extents(n.block[:], inodeExtents)
		return nil
	}
	leaf = make([]byte, blockSize)
	n.data.extents(leaf, leafExtents)
	n.extra++
	extentHeader(n.block[:], 1, inodeExtents, 1)
	le.PutUint32(n.block[extentSize+4:], free)
	return leaf
}

// extents writes an extent header and one extent for each part of the run.
func (r run) extents(b []byte, room int) {
	count := 0
	for done := uint32(0); done < r.count; count++ {
		part := min(r.count-done, maxExtent)
		e := b[extentSize*(1+count):]
		le.PutUint32(e[0:], done)
		le.PutUint16(e[4:], uint16(part))
		le.PutUint32(e[8:], r.first+done)
		done += part
	}
	extentHeader(b, count, room, 0)
}

func extentHeader(b []byte, count, room, depth int) {
	le.PutUint16(b[0:], extentMagic)
	le.PutUint16(b[2:], uint16(count))
	le.PutUint16(b[4:], uint16(room))
	le.PutUint16(b[6:], uint16(depth))
}

// encode writes the inode as it is in the inode table.
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
	le.PutUint32(b[28:], (n.data.count+uint32(n.extra))*sectors)
	if n.mapped {
		le.PutUint32(b[32:], extentMapped)
	}
	copy(b[40:], n.block[:])
	le.PutUint32(b[104:], n.outside)
	le.PutUint32(b[108:], uint32(n.size>>32))
	le.PutUint16(b[120:], uint16(n.uid>>16))
	le.PutUint16(b[122:], uint16(n.gid>>16))
	le.PutUint16(b[128:], extraSize)
	copy(b[128+extraSize:], n.inside)
}

// timestamp is a time in the inode's two fields: 32 bits of seconds, then two
// bits more of them and thirty of nanoseconds. What is out of range is 1970.
func timestamp(t time.Time) (seconds, fraction uint32) {
	s := t.Unix()
	epoch := (s - int64(int32(s))) >> 32
	if epoch < 0 || epoch > 3 {
		return 0, 0
	}
	return uint32(s), uint32(epoch) | uint32(t.Nanosecond())<<2
}

// entries is a directory's content.
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
	le.PutUint16(b[last+4:], uint16(len(b)-last)) // the last one reaches to the end
	return b
}

var le = binary.LittleEndian
