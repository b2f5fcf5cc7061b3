package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
)

// inMemory is the largest file that is read into memory, and looked for in the store, before
// anything is written.
const inMemory = 64 << 10

// Batch puts objects that belong together. No sweep deletes what a batch has put before the batch
// ends. Its methods must not be called concurrently.
type Batch struct {
	s       *Store
	touched map[Digest]bool // true if this batch made the object
}

// Begin starts a batch. The caller must call End.
func (s *Store) Begin() *Batch {
	b := &Batch{s, map[Digest]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.batches = append(s.batches, b)
	return b
}

// End ends a batch. Unless keep is set, it removes the objects that no one else has put meanwhile.
func (b *Batch) End(keep bool) {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, made := range b.touched {
		if made && !keep && !s.pinnedLocked(d, b) {
			_ = s.deleteLocked(s.object(d)) // else the next sweep does
		}
	}
	s.endLocked()
}

// endLocked ends a batch or a sweep.
func (s *Store) endLocked() {
	if s.running--; s.running == 0 {
		s.batches = nil
	}
}

// pinnedLocked reports whether another batch may need an object.
func (s *Store) pinnedLocked(d Digest, but *Batch) bool {
	return slices.ContainsFunc(s.batches, func(b *Batch) bool {
		_, touched := b.touched[d]
		return touched && b != but
	})
}

// deleteLocked removes an object.
func (s *Store) deleteLocked(path string) error {
	info, err := os.Lstat(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil && s.used >= 0 {
		s.used -= info.Size()
	}
	return err
}

// Put puts a small object.
func (b *Batch) Put(data []byte) (Digest, error) {
	d := Digest(sha256.Sum256(data))
	b.s.mu.Lock()
	there := b.hasLocked(d, int64(len(data)))
	b.s.mu.Unlock()
	if there {
		return d, nil
	}
	tmp, err := b.s.temporary(data)
	if err != nil {
		return d, failed(errors.Join(err, remove(tmp)))
	}
	return d, b.keep(tmp, d, int64(len(data)))
}

// hasLocked pins an object and reports whether it is there.
func (b *Batch) hasLocked(d Digest, size int64) bool {
	if _, ok := b.touched[d]; !ok {
		b.touched[d] = false
	}
	return b.s.has(d, size)
}

// Pin keeps a content of PutFile that is in the store.
func (b *Batch) Pin(content Digest, size int64) error {
	chunks, err := b.s.Chunks(content, size)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	for _, d := range append(chunks, content) {
		b.hasLocked(d, size)
	}
	return err
}

// keep makes an object of a temporary file, unless there is one.
func (b *Batch) keep(tmp string, d Digest, size int64) error {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.hasLocked(d, size) {
		return remove(tmp)
	}
	used, err := s.usedLocked()
	if err == nil && s.max > 0 && used+size > s.max {
		err = fault.Newf(fault.Rejected, op, s.dir, "its %d bytes are used up", s.max).Advise("Delete old checkpoints, or give history more bytes.")
	}
	if err == nil {
		err = os.Chmod(tmp, readOnly)
	}
	if err == nil {
		err = os.Rename(tmp, s.object(d))
	}
	if err != nil {
		return failed(errors.Join(err, remove(tmp)))
	}
	s.used += size
	b.touched[d] = true
	return nil
}

func failed(err error) error { return fault.Wrap("write history", "", err) }

// zeroChunk is the digest of a chunk of zeros, which is not stored.
var zeroChunk = sync.OnceValue(func() Digest { return sha256.Sum256(make([]byte, ChunkSize)) })

// PutFile puts the first size bytes of a file or stream, or fewer if it has fewer, and returns their digest and
// their number. The content of more than a chunk has the digest of a list of chunks.
func (b *Batch) PutFile(ctx context.Context, f io.Reader, size int64) (Digest, int64, error) {
	if size <= inMemory {
		data, err := io.ReadAll(io.LimitReader(f, size))
		if err != nil {
			return Digest{}, 0, failed(err)
		}
		d, err := b.Put(data)
		return d, int64(len(data)), err
	}
	var list []byte
	for total := int64(0); ; {
		d, n, err := b.putChunk(ctx, f, total, min(size-total, ChunkSize))
		total += n
		if err != nil || total <= ChunkSize && (n < ChunkSize || total == size) {
			return d, total, err
		}
		if n > 0 {
			list = append(list, d[:]...)
		}
		if n < ChunkSize || total == size {
			d, err := b.Put(list)
			return d, total, err
		}
	}
}

// putChunk puts up to n bytes from off, where a stream is. A whole chunk of zeros that is not the first has the
// zero Digest and no object.
func (b *Batch) putChunk(ctx context.Context, from io.Reader, off, n int64) (d Digest, done int64, err error) {
	f, isFile := from.(*os.File)
	if isFile && n == ChunkSize {
		info, err := f.Stat()
		if err != nil {
			return d, 0, failed(err)
		}
		if data, end, err := clone.NextData(f, off, off+n); off > 0 && data == end && err == nil && info.Size() >= off+n {
			return d, n, nil
		}
	}
	tmp, err := os.CreateTemp(b.s.path("tmp"), "")
	if err != nil {
		return d, 0, failed(err)
	}
	defer tmp.Close()
	if isFile {
		err = clone.Range(ctx, tmp, 0, f, off, n, nil)
	} else if _, err = io.CopyN(tmp, from, n); err == io.EOF {
		err = context.Cause(ctx)
	}
	if info, statErr := tmp.Stat(); err == nil && statErr == nil && info.Size() > n { // the file grew
		err = tmp.Truncate(n)
	}
	hash := sha256.New()
	if err == nil {
		done, err = io.Copy(hash, io.NewSectionReader(tmp, 0, n))
	}
	if err != nil {
		return d, 0, failed(errors.Join(err, remove(tmp.Name())))
	}
	if hash.Sum(d[:0]); done == ChunkSize && off > 0 && d == zeroChunk() || done == 0 && off > 0 {
		return Digest{}, done, remove(tmp.Name())
	}
	return d, done, b.keep(tmp.Name(), d, done)
}
