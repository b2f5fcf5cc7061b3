package guest

import (
	"hash"
	"io"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// sending is what is on its way to the guest. Where it is more or less than was said, its last
// bytes are kept back, and the guest keeps what was there, or has appended a part. The transport
// may read it for longer than the call takes, if the guest answers before it could know all.
type sending struct {
	from io.Reader

	mu   sync.Mutex
	left uint64 // of what was said
	sum  hash.Hash
	err  error
}

// Read implements io.Reader.
func (s *sending) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	size := uint64(n)
	if size == s.left && err == nil { // which nobody else changes
		var more int
		if more, err = io.ReadFull(s.from, make([]byte, 1)); more > 0 {
			size++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > s.left || size < s.left && err == io.EOF {
		err = fault.Newf(fault.InvalidArgs, "send", "", "it is not of the size that was said")
	}
	if err != nil && err != io.EOF {
		s.err = err
		return 0, err
	}
	s.left -= size
	s.sum.Write(b[:n])
	return n, err
}

// end is the digest of all, if all has gone, and what went wrong here.
func (s *sending) end() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.left > 0 {
		return nil, s.err
	}
	return s.sum.Sum(nil), nil
}
