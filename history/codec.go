package history

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"

	"osaurus-sandbox/internal/fault"
)

const (
	// magic is the first bytes of each encoded tree. A new format gets a new one.
	magic = "osaurus tree 1\n"
	// numbers is how many numbers of 8 bytes an encoded entry has between its kind and its digest.
	numbers = 7
	// fixed is the size of an encoded entry without its name and target.
	fixed = 1 + 8*numbers + len(Digest{})
	// validMode are the bits that a tree has of a mode.
	validMode = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
)

// appendTree encodes the entries of a folder, which are sorted by name.
func appendTree(b []byte, entries []Entry) []byte {
	b = append(b, magic...)
	for i := range entries {
		e := &entries[i]
		b = append(b, byte(e.Kind))
		for _, n := range [numbers]int64{int64(e.Mode), e.Size, e.Mtime, e.Ctime, int64(e.Inode), int64(len(e.Name)), int64(len(e.Target))} {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
		b = append(append(append(b, e.Content[:]...), e.Name...), e.Target...)
	}
	return b
}

// decodeTree decodes and checks what appendTree has encoded.
func decodeTree(text string) ([]Entry, error) {
	rest, ok := strings.CutPrefix(text, magic)
	if !ok {
		return nil, fault.Newf(fault.Execution, "read tree", "", "unknown format").Advise("A newer version may have written it.")
	}
	entries := make([]Entry, 0, len(rest)/fixed)
	for last := ""; rest != ""; {
		e, size := decodeEntry(rest)
		if size == 0 || e.Name <= last {
			return nil, fault.New(fault.Execution, "read tree", "", errors.New("it is malformed"))
		}
		entries, rest, last = append(entries, e), rest[size:], e.Name
	}
	return entries, nil
}

// decodeEntry returns the first entry of a text and its size, which is zero if it is malformed.
func decodeEntry(text string) (e Entry, size uint64) {
	if len(text) < fixed {
		return e, 0
	}
	var n [numbers]uint64
	for i := range n {
		n[i] = binary.BigEndian.Uint64([]byte(text[1+8*i:][:8]))
	}
	e = Entry{Kind: Kind(text[0]), Mode: fs.FileMode(n[0]), Size: int64(n[1]), Mtime: int64(n[2]), Ctime: int64(n[3]), Inode: n[4]}
	copy(e.Content[:], text[1+8*numbers:])
	rest := text[fixed:]
	if n[5] > uint64(len(rest)) || n[6] > uint64(len(rest))-n[5] {
		return e, 0
	}
	e.Name, e.Target = rest[:n[5]], rest[n[5]:n[5]+n[6]]
	if strings.IndexByte(kinds, text[0]) < 0 || !validName(e.Name) || n[0]&^uint64(validMode) != 0 || e.Size < 0 || strings.Contains(e.Target, "\x00") {
		return e, 0
	}
	return e, uint64(fixed) + n[5] + n[6]
}

// validName reports whether a name can be that of a file. Only such names are used for files.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
