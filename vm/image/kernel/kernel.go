// Package kernel unpacks Linux kernels to the form that drivers boot, and selects the kernel modules that a guest needs.
package kernel

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
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

// Unpack returns a kernel in its loadable form. The input may be loadable, packed with
// gzip, or an EFI zboot image with a gzip or zstd payload, like Alpine's arm64 kernel.
func Unpack(arch vm.Arch, b []byte) ([]byte, error) {
	plain, err := unpack(arch, b)
	if err != nil {
		return nil, refuse("", err)
	}
	return plain, nil
}

// Write reads a kernel and writes it to a file in its loadable form. See Unpack.
func Write(arch vm.Arch, r io.Reader, path string) error {
	b, err := readAll(r, MaxSize)
	if err != nil {
		return refuse(path, err)
	}
	if b, err = Unpack(arch, b); err != nil {
		return err
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
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(path, err)
	}
	if head = head[:n]; !loadable(arch, head) {
		return refuse(path, fmt.Errorf("it is %s, not %s", formOf(head), loadableForm(arch)))
	}
	return nil
}

func refuse(path string, err error) error {
	return fault.New(fault.Rejected, "read kernel", path, err).
		Advise("Use a distribution's kernel for the guest's architecture.")
}

func unpack(arch vm.Arch, b []byte) ([]byte, error) {
	for range maxWrappings + 1 {
		switch {
		case loadable(arch, b):
			return b, checkLength(arch, b)
		case isZboot(b):
			payload, algorithm, err := zbootPayload(b)
			if err != nil {
				return nil, err
			}
			if b, err = decompress(bytes.NewReader(payload), algorithm, MaxSize); err != nil {
				return nil, fmt.Errorf("its payload: %w", err)
			}
		case isGzip(b):
			var err error
			if b, err = decompress(bytes.NewReader(b), "gzip", MaxSize); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("it is %s, not %s", formOf(b), loadableForm(arch))
		}
	}
	return nil, fmt.Errorf("it is packed more than %d times", maxWrappings)
}

func isGzip(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b }
func isZboot(b []byte) bool {
	return len(b) > 0x40 && string(b[:2]) == "MZ" && string(b[4:8]) == "zimg"
}
func isImage(b []byte) bool { return len(b) > 0x40 && string(b[0x38:0x3c]) == "ARM\x64" }
func isBzImage(b []byte) bool {
	return len(b) >= 0x208 && b[0x1fe] == 0x55 && b[0x1ff] == 0xaa && string(b[0x202:0x206]) == "HdrS"
}

func loadable(arch vm.Arch, b []byte) bool {
	if arch == vm.ARM64 {
		return isImage(b)
	}
	return isBzImage(b)
}

func loadableForm(arch vm.Arch) string {
	if arch == vm.ARM64 {
		return "a plain Image for arm64"
	}
	return "a bzImage for amd64"
}

func formOf(b []byte) string {
	switch {
	case isBzImage(b):
		return "a bzImage for amd64"
	case isImage(b):
		return "a plain Image for arm64"
	case isZboot(b):
		return "an EFI zboot image"
	case isGzip(b):
		return "packed with gzip"
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		return "an ELF file"
	}
	return "of an unknown form"
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
