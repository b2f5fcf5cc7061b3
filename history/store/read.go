package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"

	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

// Read returns a small object.
func (s *Store) Read(d Digest) ([]byte, error) {
	data, err := os.ReadFile(s.object(d))
	if err == nil && sha256.Sum256(data) != d {
		err = ErrDamaged
	}
	if err != nil {
		return nil, unreadable(d, err)
	}
	return data, nil
}

func unreadable(d Digest, err error) error {
	f := fault.New(fault.KindOf(err), "read object of history", d.String(), err)
	if errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return f.Advise("Restore another checkpoint, and check the whole history.")
	}
	return f
}

// Chunks returns the objects of a content of PutFile. The zero Digest is a chunk of zeros.
func (s *Store) Chunks(content Digest, size int64) ([]Digest, error) {
	if size <= ChunkSize {
		return []Digest{content}, nil
	}
	data, err := s.Read(content)
	if err != nil {
		return nil, err
	}
	list := make([]Digest, (size+ChunkSize-1)/ChunkSize)
	if len(data) != len(list)*len(content) {
		return nil, unreadable(content, ErrDamaged)
	}
	for i := range list {
		copy(list[i][:], data[i*len(content):])
	}
	return list, nil
}

// Open reads a content of PutFile. At the end of each damaged chunk, Read fails.
func (s *Store) Open(content Digest, size int64) (io.ReadCloser, error) {
	chunks, err := s.Chunks(content, size)
	return &reader{s: s, chunks: chunks, left: size}, err
}

// reader reads chunks one after the other.
type reader struct {
	s      *Store
	chunks []Digest
	left   int64 // of all chunks
	part   int64 // left of the first
	file   *os.File
	hash   hash.Hash
}

func (r *reader) Read(p []byte) (int, error) {
	for r.part == 0 {
		if r.hash != nil {
			d := r.chunks[0]
			r.Close()
			if d != (Digest{}) && !bytes.Equal(r.hash.Sum(nil), d[:]) {
				return 0, unreadable(d, ErrDamaged)
			}
			r.chunks, r.hash = r.chunks[1:], nil
		}
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		if d := r.chunks[0]; d != (Digest{}) {
			f, err := os.Open(r.s.object(d))
			if err != nil {
				return 0, unreadable(d, err)
			}
			r.file = f
		}
		r.part, r.hash = min(r.left, ChunkSize), sha256.New()
		r.left -= r.part
	}
	p = p[:min(int64(len(p)), r.part)]
	if r.file == nil {
		clear(p)
	} else if n, err := io.ReadFull(r.file, p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = ErrDamaged
		}
		return n, unreadable(r.chunks[0], err)
	}
	r.part -= int64(len(p))
	if r.file != nil {
		r.hash.Write(p)
	}
	return len(p), nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	f := r.file
	r.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// Write writes a content of PutFile to an empty file, which must be open for reading too. It shares
// blocks where it can, and reads what it has written. If it fails, the file has wrong content.
func (s *Store) Write(ctx context.Context, dst *os.File, content Digest, size int64, meter *progress.Meter) error {
	chunks, err := s.Chunks(content, size)
	if err != nil {
		return err
	}
	for i, d := range chunks {
		at := int64(i) * ChunkSize
		n := min(size-at, ChunkSize)
		if d != (Digest{}) {
			if err := s.writeChunk(ctx, dst, at, n, d); err != nil {
				return err
			}
		} else if err := dst.Truncate(at + n); err != nil {
			return fault.Wrap("write file", dst.Name(), err)
		}
		meter.Add(n)
	}
	return nil
}

func (s *Store) writeChunk(ctx context.Context, dst *os.File, at, n int64, d Digest) error {
	f, err := os.Open(s.object(d))
	if err != nil {
		return unreadable(d, err)
	}
	defer f.Close()
	if err := clone.Range(ctx, dst, at, f, 0, n); err != nil {
		return fault.Wrap("write file", dst.Name(), err)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(dst, at, n)); err != nil {
		return fault.Wrap("read file", dst.Name(), err)
	}
	if !bytes.Equal(hash.Sum(nil), d[:]) {
		return unreadable(d, ErrDamaged)
	}
	return nil
}
