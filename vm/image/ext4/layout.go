package ext4

import (
	"bufio"
	"bytes"
	"io"
	"os"

	"osaurus-sandbox/internal/fault"
)

const (
	blockSize   = 4096
	groupBlocks = blockSize * 8 // the bits of one block
	descSize    = 32
	maxGroups   = blockSize / descSize
	// headBlocks hold the superblock and the group descriptors.
	headBlocks = 2
	labelSize  = 16
)

// blockWriter writes an image from its first free block to its end.
type blockWriter struct {
	w    *bufio.Writer
	next uint32
}

func newBlockWriter(f *os.File) *blockWriter {
	const buffer = 1 << 20
	b := &blockWriter{w: bufio.NewWriterSize(f, buffer), next: headBlocks}
	_, _ = b.w.Write(make([]byte, headBlocks*blockSize)) // fits into the buffer
	return b
}

// content writes size bytes of r, padded to whole blocks.
func (b *blockWriter) content(r io.Reader, size int64) (run, error) {
	count := (size + blockSize - 1) / blockSize
	if int64(b.next)+count > MaxSize/blockSize {
		return run{}, fault.Newf(fault.Rejected, "", "", "the file system would be larger than %d bytes", int64(MaxSize)).
			Advise("Use a smaller root file system.")
	}
	if count == 0 {
		return run{}, nil
	}
	if _, err := io.CopyN(b.w, r, size); err != nil {
		return run{}, err
	}
	if _, err := b.w.Write(make([]byte, count*blockSize-size)); err != nil {
		return run{}, err
	}
	at := run{b.next, uint32(count)}
	b.next += at.count
	return at, nil
}

// layout describes the last part of the image: for each group a bitmap of its
// blocks, one of its inodes, and its part of the inode table.
type layout struct {
	nodes           []*node
	last            uint32 // inode
	first           uint32 // block
	groups          uint32
	inodesPerGroup  uint32
	end             uint32 // of the blocks in use
	blocks          uint32 // of the whole image, rarely more
	inodeTableParts uint32 // blocks per group
}

// layOut computes how many groups the image needs for all blocks, including those of the
// groups themselves.
func (w *writer) layOut() (layout, error) {
	const inodesPerBlock = blockSize / inodeSize
	l := layout{nodes: w.tree.nodes, last: w.tree.lastInode(), first: w.out.next}
	for groups := uint32(1); groups <= maxGroups; groups++ {
		perGroup := (l.last + groups - 1) / groups
		perGroup = (perGroup + inodesPerBlock - 1) / inodesPerBlock * inodesPerBlock
		if perGroup > groupBlocks {
			continue
		}
		l.groups, l.inodesPerGroup, l.inodeTableParts = groups, perGroup, perGroup/inodesPerBlock
		l.end = l.first + groups*(2+l.inodeTableParts)
		if l.end <= groups*groupBlocks {
			// With many more files than blocks, the last group has free blocks.
			l.blocks = max(l.end, (groups-1)*groupBlocks+1)
			return l, nil
		}
	}
	return l, rejected("the file system would be larger than %d bytes", int64(MaxSize))
}

func (l layout) blockBits(group uint32) uint32    { return l.first + group*(2+l.inodeTableParts) }
func (l layout) inodeBits(group uint32) uint32    { return l.blockBits(group) + 1 }
func (l layout) inodeTable(group uint32) uint32   { return l.blockBits(group) + 2 }
func (l layout) firstInodeOf(group uint32) uint32 { return group*l.inodesPerGroup + 1 }

// used returns how many inodes of a group are in use.
func (l layout) used(group uint32) uint32 {
	if l.last < l.firstInodeOf(group) {
		return 0
	}
	return min(l.last-l.firstInodeOf(group)+1, l.inodesPerGroup)
}

// node returns the inode with this number, or nil for the file system's own.
func (l layout) node(ino uint32) *node {
	switch {
	case ino == rootInode:
		return l.nodes[0]
	case ino >= firstInode && ino <= l.last:
		return l.nodes[ino-firstInode+1]
	}
	return nil
}

// free returns how many blocks are free at the end of a group.
func (l layout) free(group uint32) uint32 {
	to := min(l.blocks, (group+1)*groupBlocks)
	return to - min(max(l.end, group*groupBlocks), to)
}

// bits returns a bitmap with [from, to) free. Bits past the end of a group count as used.
func bits(from, to uint32) []byte {
	b := bytes.Repeat([]byte{0xff}, blockSize)
	for i := from; i < to; i++ {
		b[i/8] &^= 1 << (i % 8)
	}
	return b
}

// finish writes the groups and flushes the buffer.
func (b *blockWriter) finish(l layout) error {
	table := make([]byte, l.inodeTableParts*blockSize)
	for g := range l.groups {
		size := min(l.blocks-g*groupBlocks, groupBlocks)
		_, _ = b.w.Write(bits(size-l.free(g), size)) // an error stays with the writer until Flush
		_, _ = b.w.Write(bits(l.used(g), l.inodesPerGroup))
		clear(table)
		for i := range l.inodesPerGroup {
			if n := l.node(l.firstInodeOf(g) + i); n != nil {
				n.encode(table[i*inodeSize:])
			}
		}
		_, _ = b.w.Write(table)
	}
	return b.w.Flush()
}

// head returns the first blocks: the superblock and the group descriptors.
func (l layout) head(label string) []byte {
	b := make([]byte, headBlocks*blockSize)
	l.superblock(b[1024:2048], label)
	for g := range l.groups {
		d := b[blockSize+g*descSize:]
		le.PutUint32(d[0:], l.blockBits(g))
		le.PutUint32(d[4:], l.inodeBits(g))
		le.PutUint32(d[8:], l.inodeTable(g))
		le.PutUint16(d[12:], uint16(l.free(g)))
		le.PutUint16(d[14:], uint16(l.inodesPerGroup-l.used(g)))
		le.PutUint16(d[16:], l.directories(g))
	}
	return b
}

func (l layout) directories(group uint32) (count uint16) {
	for i := range l.used(group) {
		if n := l.node(l.firstInodeOf(group) + i); n != nil && n.kind() == kindDir {
			count++
		}
	}
	return count
}

// superblock sets the fields that are not zero. The identifier and the times are zero, so
// that every host writes the same bytes.
func (l layout) superblock(b []byte, label string) {
	const (
		compatible   = 0x8 | 0x200         // ext_attr, sparse_super2 (without copies of this block)
		incompatible = 0x2 | 0x40 | 0x200  // filetype, extents, flex_bg
		readOnlyOK   = 0x2 | 0x40 | 0x1000 // large_file, extra_isize, read-only
		clean        = 1
		goOn         = 1 // on errors
		noCheck      = 0xffff
		logBlock     = 2 // 1024 << 2
	)
	le.PutUint32(b[0:], l.groups*l.inodesPerGroup)
	le.PutUint32(b[4:], l.blocks)
	le.PutUint32(b[12:], l.blocks-l.end)
	le.PutUint32(b[16:], l.groups*l.inodesPerGroup-l.last)
	le.PutUint32(b[24:], logBlock)
	le.PutUint32(b[28:], logBlock)
	le.PutUint32(b[32:], groupBlocks)
	le.PutUint32(b[36:], groupBlocks)
	le.PutUint32(b[40:], l.inodesPerGroup)
	le.PutUint16(b[54:], noCheck)
	le.PutUint16(b[56:], 0xef53)
	le.PutUint16(b[58:], clean)
	le.PutUint16(b[60:], goOn)
	le.PutUint32(b[76:], 1) // revision with what follows
	le.PutUint32(b[84:], firstInode)
	le.PutUint16(b[88:], inodeSize)
	le.PutUint32(b[92:], compatible)
	le.PutUint32(b[96:], incompatible)
	le.PutUint32(b[100:], readOnlyOK)
	copy(b[120:120+labelSize], label)
	le.PutUint16(b[348:], extraSize)
	le.PutUint16(b[350:], extraSize)
}
