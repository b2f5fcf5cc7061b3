package squashfs

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// decompressor returns the content of a block, which is at most max bytes.
type decompressor func(b []byte, max int) ([]byte, error)

// The numbers of the compressions that are read. LZMA, LZO and LZ4 are not:
// no distribution's modules use them.
const (
	gzipCompression = 1
	xzCompression   = 4
	zstdCompression = 6
)

func newDecompressor(number uint16) (decompressor, error) {
	switch number {
	case gzipCompression:
		return streamed(func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }), nil
	case xzCompression:
		// A block's dictionary is never larger than the largest block.
		return streamed(func(r io.Reader) (io.Reader, error) { return xz.NewReader(r, maxBlock) }), nil
	case zstdCompression:
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(8*maxBlock))
		if err != nil {
			return nil, err
		}
		return func(b []byte, max int) ([]byte, error) {
			if err := z.Reset(bytes.NewReader(b)); err != nil {
				return nil, err
			}
			return readBlock(z, max)
		}, nil
	}
	return nil, fmt.Errorf("squashfs: compression %d is not known; gzip, xz and zstd are", number)
}

func streamed(open func(io.Reader) (io.Reader, error)) decompressor {
	return func(b []byte, max int) ([]byte, error) {
		r, err := open(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return readBlock(r, max)
	}
}

func readBlock(r io.Reader, max int) ([]byte, error) {
	out := make([]byte, max+1)
	n, err := io.ReadFull(r, out)
	switch {
	case err == nil:
		return nil, fmt.Errorf("squashfs: a block unpacks to more than %d bytes", max)
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, fmt.Errorf("squashfs: a block: %w", err)
	}
	return out[:n], nil
}
