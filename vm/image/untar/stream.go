package untar

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// stream decompresses an archive and enforces the limits on its size.
type stream struct {
	packed   counter
	unpacked counter
	close    func()
}

// open detects the compression from the archive's first bytes.
func (s *stream) open() error {
	in := bufio.NewReader(&s.packed)
	head, err := in.Peek(len(magicZstd))
	if err != nil && err != io.EOF {
		return err
	}
	s.unpacked.r = in
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		s.unpacked.r = z
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return err
		}
		s.unpacked.r, s.close = z, z.Close
	}
	return nil
}

// Read reads decompressed data and fails beyond the limits.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.unpacked.Read(p)
	switch {
	case s.unpacked.n > maxBytes:
		return 0, fmt.Errorf("it unpacks to more than %d bytes", int64(maxBytes))
	case s.unpacked.n > freeRatio && s.unpacked.n/maxRatio > s.packed.n:
		return 0, fmt.Errorf("it unpacks to more than %d times its size", maxRatio)
	}
	return n, err
}

// counter counts the bytes read and keeps the error of the reader.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
