package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
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

// Open reads a content of PutFile. Read fails at a damaged chunk, before any of its bytes.
func (s *Store) Open(content Digest, size int64) (io.Reader, error) {
	chunks, err := s.Chunks(content, size)
	return &reader{s: s, chunks: chunks, left: size}, err
}

// reader reads chunks one after the other.
type reader struct {
	s      *Store
	chunks []Digest
	left   int64  // of the chunks
	data   []byte // of the chunk before them
}

func (r *reader) Read(p []byte) (n int, err error) {
	for len(r.data) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		d, size := r.chunks[0], min(r.left, ChunkSize)
		if d == (Digest{}) {
			r.data = make([]byte, size)
		} else if r.data, err = r.s.Read(d); err != nil {
			return 0, err
		}
		if int64(len(r.data)) != size {
			return 0, unreadable(d, ErrDamaged)
		}
		r.chunks, r.left = r.chunks[1:], r.left-size
	}
	n = copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
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
	if err := clone.Range(ctx, dst, at, f, 0, n, nil); err != nil {
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
