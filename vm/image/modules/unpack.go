package modules

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// read unpacks a module and reads what it says of itself.
func read(name, packing string, r io.Reader) (Module, error) {
	data, err := unpack(packing, r)
	if err != nil {
		return Module{}, err
	}
	m := Module{Name: name, Data: unsigned(data)}
	if m.needs, m.wishes, err = relations(data); err != nil {
		return Module{}, err
	}
	return m, nil
}

func unpack(packing string, r io.Reader) ([]byte, error) {
	switch packing {
	case ".gz":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return readAll(z)
	case ".xz":
		z, err := xz.NewReader(r, 0)
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

// relations returns what a module needs and wishes to be loaded before it.
func relations(module []byte) (needs, wishes []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil, errors.New("it has no .modinfo section, so it is not a kernel module")
	}
	if section.Size > uint64(len(module)) {
		return nil, nil, errors.New("its .modinfo section is larger than itself")
	}
	info, err := section.Data()
	if err != nil {
		return nil, nil, err
	}
	for pair := range strings.SplitSeq(string(info), "\x00") {
		switch key, value, _ := strings.Cut(pair, "="); key {
		case "depends":
			for n := range strings.SplitSeq(value, ",") {
				if n != "" {
					needs = append(needs, canonical(n))
				}
			}
		case "softdep":
			wishes = append(wishes, before(value)...)
		}
	}
	return needs, wishes, nil
}

// before returns the names in the "pre:" parts of a softdep line, such as
// "pre: crc32c aes post: mpls_gso". Words before any mark count as pre.
func before(softdep string) (names []string) {
	post := false
	for _, word := range strings.Fields(softdep) {
		switch word {
		case "pre:":
			post = false
		case "post:":
			post = true
		default:
			if !post {
				names = append(names, canonical(word))
			}
		}
	}
	return names
}
