package guest

import (
	"hash"
	"io"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// sending is content that the transport reads for an upload. If its size is not as announced, the
// last bytes are held back so that the guest does not replace the file. The transport may go on
// reading after the call returns.
type sending struct {
	from io.Reader

	mu   sync.Mutex
	left uint64 // bytes still to send
	sum  hash.Hash
	err  error
}

// Read implements io.Reader.
func (s *sending) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	size := uint64(n)
	if size == s.left && err == nil { // only Read changes left
		var more int
		if more, err = io.ReadFull(s.from, make([]byte, 1)); more > 0 {
			size++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > s.left || size < s.left && err == io.EOF {
		err = fault.Newf(fault.InvalidArgs, "send", "", "the content does not have the announced size")
	}
	if err != nil && err != io.EOF {
		s.err = err
		return 0, err
	}
	s.left -= size
	s.sum.Write(b[:n])
	return n, err
}

// end returns the digest if everything was sent, or the error that stopped it.
func (s *sending) end() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.left > 0 {
		return nil, s.err
	}
	return s.sum.Sum(nil), nil
}
