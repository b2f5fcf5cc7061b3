package history

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxPacked bounds the entries of a packed tree: a small one may name the same folder again and again.
	maxPacked = 1_000_000
	// maxObjects bounds their number: each takes an inode. It is more than so many entries need.
	maxObjects = 2 * maxPacked
	// maxObject bounds the objects of a pack: a folder of half a million files is one.
	maxObject = 4 * store.ChunkSize
	// maxPackedFile bounds a packed file: its list of chunks is one object.
	maxPackedFile = maxObject / int64(len(Digest{})) * store.ChunkSize
)

// Pack writes all objects of a tree, each after its length, for Unpack.
func (h *History) Pack(ctx context.Context, tree Digest, to io.Writer) error {
	done := map[Digest]bool{{}: true}
	p := packing{h: h, ctx: ctx, seen: map[Digest]packed{}, visit: func(d Digest) error {
		if done[d] {
			return nil
		}
		done[d] = true
		data, err := h.store.Read(d)
		if err == nil {
			err = binary.Write(to, binary.BigEndian, uint32(len(data)))
		}
		if err == nil {
			_, err = to.Write(data)
		}
		return err
	}}
	_, err := p.folder(tree, 0)
	return err
}

// Unpack puts what Pack has written, or anyone: it fails with Rejected unless all of the tree is there. Prune
// deletes the objects again unless a checkpoint needs them.
func (h *History) Unpack(ctx context.Context, tree Digest, from io.Reader) error {
	batch, there := h.store.Begin(), map[Digest]bool{{}: true}
	defer batch.End(true)
	for {
		var size uint32
		err := binary.Read(from, binary.BigEndian, &size)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil && (size > maxObject || len(there) > maxObjects) {
			err = errors.New("an object is too large, or there are too many")
		}
		data := make([]byte, min(size, maxObject))
		if err == nil {
			_, err = io.ReadFull(from, data)
		}
		if err != nil {
			return malformed(ctx, err)
		}
		d, err := batch.Put(data)
		if err != nil {
			return err
		}
		if there[d] { // or a small archive has any number of them
			return malformed(ctx, errors.New("an object is there twice"))
		}
		there[d] = true
	}
	p := packing{h: h, ctx: ctx, max: h.options.MaxBytes, seen: map[Digest]packed{}, visit: func(d Digest) error {
		if !there[d] {
			return errors.New("a part is missing")
		}
		return nil
	}}
	if _, err := p.folder(tree, 0); err != nil {
		return malformed(ctx, err)
	}
	return nil
}

func malformed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.New(fault.Rejected, "unpack folder", "", err).Advise("The archive is damaged.")
}

// packing visits the objects of a tree, each folder once.
type packing struct {
	h     *History
	ctx   context.Context
	visit func(Digest) error
	max   int64 // bytes, or zero
	seen  map[Digest]packed
}

// packed is what a folder has, whatever it shares with others.
type packed struct {
	files int64
	bytes int64 // without holes
	depth int
}

func (p *packing) folder(tree Digest, depth int) (sum packed, err error) {
	if sum, ok := p.seen[tree]; ok {
		return sum, nil
	}
	if err := p.visit(tree); err != nil {
		return sum, err
	}
	entries, err := p.h.Tree(p.ctx, tree)
	for _, e := range entries {
		var in packed
		switch {
		case err != nil:
			return sum, err
		case e.Kind == Folder:
			in, err = p.folder(e.Content, depth+1)
		case e.Kind == File:
			in.bytes, err = p.file(e)
		}
		sum.files, sum.bytes, sum.depth = sum.files+in.files+1, sum.bytes+in.bytes, max(sum.depth, in.depth+1)
		if sum.files > maxPacked || max(depth, sum.depth) > maxDepth || p.max > 0 && sum.bytes > p.max {
			return sum, fault.Newf(fault.Rejected, "pack folder", "", "it has more than %d files, %d folders in one another, or %d bytes", maxPacked, maxDepth, p.max)
		}
	}
	p.seen[tree] = sum
	return sum, err
}

// file returns how many bytes a file takes.
func (p *packing) file(e Entry) (size int64, err error) {
	if e.Size > maxPackedFile {
		return 0, fault.Newf(fault.Rejected, "pack file", e.Name, "it is too large")
	}
	if err := p.visit(e.Content); err != nil {
		return 0, err
	}
	chunks, err := p.h.store.Chunks(e.Content, e.Size)
	for _, d := range chunks {
		if d != (Digest{}) {
			size += min(e.Size, store.ChunkSize)
		}
		if err == nil {
			err = p.visit(d)
		}
	}
	return size, err
}
