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
	// maxPacked bounds the entries of a packed tree.
	maxPacked = 1_000_000
	// maxObject bounds the objects of a pack: a folder of half a million files is one.
	maxObject = 4 * store.ChunkSize
	// maxPackedFile bounds a packed file: its list of chunks is one object.
	maxPackedFile = maxObject / int64(len(Digest{})) * store.ChunkSize
)

// Pack writes the objects of a tree, each after its length, for Unpack: each content once, and each folder as often
// as it is named, so that a pack is not smaller than the folders in it.
func (h *History) Pack(ctx context.Context, tree Digest, to io.Writer) error {
	p := packing{h: h, ctx: ctx, done: map[Digest]bool{{}: true}, object: func(d Digest) ([]byte, error) {
		data, err := h.store.Read(d)
		if err == nil {
			err = binary.Write(to, binary.BigEndian, uint32(len(data)))
		}
		if err == nil {
			_, err = to.Write(data)
		}
		return data, err
	}}
	return p.folder(tree, 0)
}

// Unpack stores what Pack has written. The pack may be hostile: Unpack fails with Rejected unless all of the tree is
// there. It reads nothing beyond it. Prune deletes the objects again unless a checkpoint needs them.
func (h *History) Unpack(ctx context.Context, tree Digest, from io.Reader) error {
	batch := h.store.Begin()
	defer batch.End(true)
	var failed error // to keep an object
	p := packing{h: h, ctx: ctx, max: h.options.MaxBytes, done: map[Digest]bool{{}: true}, object: func(want Digest) ([]byte, error) {
		var size uint32
		err := binary.Read(from, binary.BigEndian, &size)
		if err == nil && size > maxObject {
			err = errors.New("an object is too large")
		}
		if err != nil {
			return nil, err
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(from, data); err != nil {
			return nil, err
		}
		d, err := batch.Put(data)
		if failed = err; err == nil && d != want {
			err = errors.New("a part is missing")
		}
		return data, err
	}}
	err := p.folder(tree, 0)
	switch {
	case err == nil:
		return nil
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fault.New(fault.Rejected, "unpack folder", "", err).Advise("The archive is damaged.")
}

// packing visits the objects of a tree in the order of a pack.
type packing struct {
	h      *History
	ctx    context.Context
	object func(Digest) ([]byte, error)
	done   map[Digest]bool // contents
	max    int64           // bytes of all files, or zero

	files int
	bytes int64 // without holes
}

func (p *packing) folder(tree Digest, depth int) error {
	if tree == (Digest{}) {
		return nil
	}
	data, err := p.object(tree)
	if err != nil {
		return err
	}
	entries, err := decodeTree(string(data))
	for _, e := range entries {
		if err == nil {
			err = context.Cause(p.ctx)
		}
		switch {
		case err != nil:
			return err
		case e.Kind == Folder:
			err = p.folder(e.Content, depth+1)
		case e.Kind == File:
			err = p.file(e)
		}
		if p.files++; p.files > maxPacked || depth > maxDepth || p.max > 0 && p.bytes > p.max {
			return fault.Newf(fault.Rejected, "pack folder", "", "it has more than %d files, %d folders in one another, or %d bytes", maxPacked, maxDepth, p.max)
		}
	}
	return err
}

func (p *packing) file(e Entry) error {
	if e.Size > maxPackedFile {
		return fault.Newf(fault.Rejected, "pack file", e.Name, "it is too large")
	}
	if err := p.content(e.Content); err != nil {
		return err
	}
	chunks, err := p.h.store.Chunks(e.Content, e.Size)
	for _, d := range chunks {
		if d != (Digest{}) {
			p.bytes += min(e.Size, store.ChunkSize)
		}
		if err == nil {
			err = p.content(d)
		}
	}
	return err
}

// content visits an object of a file.
func (p *packing) content(d Digest) (err error) {
	if !p.done[d] {
		p.done[d] = true
		_, err = p.object(d)
	}
	return err
}
