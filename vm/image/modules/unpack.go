package modules

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// Unpack reads a module of the given packing: "", ".gz", ".xz" or ".zst".
func Unpack(packing string, r io.Reader) ([]byte, error) {
	switch packing {
	case ".gz":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return readAll(z)
	case ".xz":
		z, err := xz.NewReader(r, maxModule)
		if err != nil {
			return nil, err
		}
		return readAll(z)
	case ".zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModule))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return readAll(z)
	}
	return readAll(r)
}

// signatureMark ends a module that has a signature appended. Before it is a
// head of twelve bytes, the last four of which are the signature's length, and
// before that the signature.
const signatureMark = "~Module signature appended~\n"

// unsigned cuts a module's signature off. To check one takes a kernel four
// times as long as to load the module, and proves only what the digests of
// packs and images have proven already.
func unsigned(module []byte) []byte {
	const head = 12
	rest, ok := bytes.CutSuffix(module, []byte(signatureMark))
	if !ok || len(rest) < head {
		return module
	}
	size := int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	if size > int64(len(rest)-head) {
		return module
	}
	return rest[:int64(len(rest)-head)-size]
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(data) > maxModule {
		err = fmt.Errorf("it has more than %d bytes", maxModule)
	}
	return data, err
}
