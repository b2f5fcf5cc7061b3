// Package kernel unpacks Linux kernels to the form that drivers boot, and selects the kernel modules that a guest needs.
package kernel

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

const (
	// MaxSize bounds a kernel in bytes, packed or not. The largest known has 60 MB.
	MaxSize = 128 << 20
	// maxWrappings is how often a kernel may be packed, such as gzip in zboot.
	maxWrappings = 3
	// headSize is how much of a kernel is read to recognize its form.
	headSize = 0x208
)

// Write reads a kernel and writes it to a file in its loadable form. See Unpack.
func Write(arch vm.Arch, r io.Reader, path string) error {
	b, err := readAll(r, MaxSize)
	if err == nil {
		b, err = Unpack(arch, b)
	}
	if err != nil {
		return refuse(path, err)
	}
	return os.WriteFile(path, b, 0o644)
}

// Check checks that a file is a kernel in its loadable form.
func Check(arch vm.Arch, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, headSize))
	if err == nil && formOf(head) != loadable(arch) {
		err = notLoadable(arch, head)
	}
	if err != nil {
		return refuse(path, err)
	}
	return nil
}

func refuse(path string, err error) error {
	return fault.New(fault.Rejected, "read kernel", path, err).
		Advise("Use a distribution's kernel for the guest's architecture.")
}

// Unpack returns a kernel in its loadable form. The input may be loadable, packed with
// gzip, or an EFI zboot image with a gzip or zstd payload, like Alpine's arm64 kernel.
func Unpack(arch vm.Arch, b []byte) (_ []byte, err error) {
	for range maxWrappings + 1 {
		switch formOf(b) {
		case loadable(arch):
			return b, checkLength(arch, b)
		case zboot:
			payload, algorithm, err := zbootPayload(b)
			if err != nil {
				return nil, err
			}
			if b, err = decompress(bytes.NewReader(payload), algorithm, MaxSize); err != nil {
				return nil, fmt.Errorf("its payload: %w", err)
			}
		case gzipped:
			if b, err = decompress(bytes.NewReader(b), "gzip", MaxSize); err != nil {
				return nil, err
			}
		default:
			return nil, notLoadable(arch, b)
		}
	}
	return nil, fmt.Errorf("it is packed more than %d times", maxWrappings)
}

func notLoadable(arch vm.Arch, b []byte) error {
	return fmt.Errorf("it is %s, not %s", formOf(b), loadable(arch))
}

// form is the form of a kernel, for people.
type form string

const (
	bzImage    form = "a bzImage for amd64"
	plainImage form = "a plain Image for arm64"
	zboot      form = "an EFI zboot image"
	gzipped    form = "packed with gzip"
)

func formOf(b []byte) form {
	at := func(offset int, text string) bool {
		return len(b) >= offset+len(text) && string(b[offset:][:len(text)]) == text
	}
	switch {
	case at(0x1fe, "\x55\xaa") && at(0x202, "HdrS") && len(b) >= headSize:
		return bzImage
	case at(0x38, "ARM\x64") && len(b) > 0x40:
		return plainImage
	case at(0, "MZ") && at(4, "zimg") && len(b) > 0x40:
		return zboot
	case at(0, "\x1f\x8b"):
		return gzipped
	case at(0, "\x7fELF"):
		return "an ELF file"
	}
	return "of an unknown form"
}

func loadable(arch vm.Arch) form {
	if arch == vm.ARM64 {
		return plainImage
	}
	return bzImage
}

// checkLength rejects a truncated arm64 Image. Its header says how much memory it needs,
// which is a little more than the size of the file.
func checkLength(arch vm.Arch, b []byte) error {
	if arch != vm.ARM64 {
		return nil
	}
	if memory := binary.LittleEndian.Uint64(b[0x10:]); memory/2 > uint64(len(b)) {
		return fmt.Errorf("it is truncated: %d of %d bytes", len(b), memory)
	}
	return nil
}

// zbootPayload returns the packed Image in an EFI zboot file. The header has its offset
// at 8, its size at 12 and the name of the algorithm at 0x18.
func zbootPayload(b []byte) (payload []byte, algorithm string, err error) {
	offset, size := uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:]))
	if offset+size > uint64(len(b)) {
		return nil, "", fmt.Errorf("it is truncated: %d of %d bytes", len(b), offset+size)
	}
	name, _, _ := bytes.Cut(b[0x18:0x38], []byte{0})
	return b[offset : offset+size], string(name), nil
}

// decompress reads up to limit bytes. The format is the suffix of a module's file or the
// algorithm in a zboot header.
func decompress(r io.Reader, format string, limit int64) ([]byte, error) {
	switch format {
	case "":
		return readAll(r, limit)
	case ".gz", "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		z.Multistream(false) // the kernel's build appends the size, others padding
		return readAll(z, limit)
	case ".xz":
		z, err := xz.NewReader(r, uint32(limit))
		if err != nil {
			return nil, err
		}
		return readAll(z, limit)
	case ".zst", "zstd", "zstd22":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderMaxWindow(uint64(limit)))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return readAll(z, limit)
	}
	return nil, fmt.Errorf("compression %q is not supported, only gzip and zstd", format)
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return b, err
}
