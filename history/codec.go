package history

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// magic is the first bytes of each encoded tree. A new format gets a new one.
const magic = "osaurus tree 1\n"

// appendTree encodes the entries of a folder, which are sorted by name.
func appendTree(b []byte, entries []Entry) []byte {
	b = append(b, magic...)
	for i := range entries {
		e := &entries[i]
		b = appendText(append(b, byte(e.Kind)), e.Name)
		switch e.Kind {
		case File:
			b = binary.AppendUvarint(b, uint64(e.Mode))
			b = binary.AppendUvarint(b, uint64(e.Size))
			b = binary.AppendVarint(b, e.Mtime)
			b = binary.AppendVarint(b, e.Ctime-e.Mtime) // often equal
			b = binary.AppendUvarint(b, e.Inode)
			b = append(b, e.Content[:]...)
		case Folder:
			b = binary.AppendUvarint(b, uint64(e.Mode))
			b = append(b, e.Content[:]...)
		case Link:
			b = appendText(b, e.Target)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// validMode are the bits that a tree has of a mode.
const validMode = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// decodeTree decodes and checks what appendTree has encoded.
func decodeTree(text string) ([]Entry, error) {
	rest, ok := strings.CutPrefix(text, magic)
	if !ok {
		return nil, fault.Newf(fault.Execution, "read tree", "", "unknown format").Advise("A newer version may have written it.")
	}
	d := decoder{rest: rest}
	entries := make([]Entry, 0, len(rest)/64) // about the size of one
	for last := ""; d.rest != "" && !d.bad; {
		e := Entry{Kind: Kind(d.bytes(1)[0]), Name: d.text()}
		switch e.Kind {
		case File:
			e.Mode, e.Size, e.Mtime = fs.FileMode(d.uvarint()), int64(d.uvarint()), d.varint()
			e.Ctime, e.Inode = e.Mtime+d.varint(), d.uvarint()
			copy(e.Content[:], d.bytes(len(e.Content)))
		case Folder:
			e.Mode = fs.FileMode(d.uvarint())
			copy(e.Content[:], d.bytes(len(e.Content)))
		case Link:
			e.Target = d.text()
			e.Size = int64(len(e.Target))
		case Special, Unreadable, Excluded, TooLarge, TooDeep:
		default:
			d.bad = true
		}
		d.bad = d.bad || e.Name <= last || !validName(e.Name) || e.Mode&^validMode != 0 || e.Size < 0 || strings.Contains(e.Target, "\x00")
		last = e.Name
		entries = append(entries, e)
	}
	if d.bad {
		return nil, fault.New(fault.Execution, "read tree", "", errors.New("it is malformed"))
	}
	return entries, nil
}

// validName reports whether a name can be that of a file. Only such names are used for files.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// decoder reads values, which are zero once the text has been bad.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) bytes(n int) string {
	if n > len(d.rest) {
		d.bad, d.rest = true, ""
		return string(make([]byte, n))
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uvarint() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := d.bytes(1)[0]
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			d.bad = d.bad || shift > 0 && b == 0 || shift == 63 && b > 1 // one encoding of each
			return v
		} else if shift == 63 {
			d.bad = true
			return 0
		}
	}
}

func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, ""
		return ""
	}
	return d.bytes(int(n))
}
