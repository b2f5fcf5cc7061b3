package image

import (
	"fmt"
	"io"
)

// CPIOEntry is one file of an initramfs. All files belong to root and are dated
// 1970, so the same entries always give the same bytes.
type CPIOEntry struct {
	Name         string // relative, without a leading slash
	Mode         uint32 // file type and permission bits
	Major, Minor uint32 // of a device
	Data         []byte // of a file
}

// The file types of a CPIOEntry.
const (
	CPIODir    = 0o040000
	CPIOFile   = 0o100000
	CPIODevice = 0o020000 // character device

	cpioTypeMask = 0o170000
)

// WriteCPIO writes a cpio archive in the "newc" format, which the Linux kernel
// unpacks as its initramfs. A directory must come before its files.
func WriteCPIO(w io.Writer, entries []CPIOEntry) error {
	for i, e := range entries {
		if err := writeCPIOEntry(w, e, uint32(i+1)); err != nil {
			return err
		}
	}
	return writeCPIOEntry(w, CPIOEntry{Name: "TRAILER!!!"}, 0)
}

func writeCPIOEntry(w io.Writer, e CPIOEntry, inode uint32) error {
	links := uint32(1)
	if e.Mode&cpioTypeMask == CPIODir {
		links = 2
	}
	const uid, gid, mtime, devMajor, devMinor, check = 0, 0, 0, 0, 0, 0
	header := "070701"
	for _, field := range []uint32{inode, e.Mode, uid, gid, links, mtime, uint32(len(e.Data)),
		devMajor, devMinor, e.Major, e.Minor, uint32(len(e.Name) + 1), check} {
		header += fmt.Sprintf("%08x", field)
	}
	for _, part := range [][]byte{[]byte(header + e.Name + "\x00"), e.Data} {
		if _, err := w.Write(part); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, -len(part)&3)); err != nil { // each part is padded to four bytes
			return err
		}
	}
	return nil
}
