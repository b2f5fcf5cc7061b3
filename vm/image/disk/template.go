package disk

import (
	"bufio"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// template is a file system of MinSize made by mke2fs, so that hosts need no mkfs. It is
// deflated and contains each non-zero block after its number.
//
//go:generate go run ./template ext4.template
//go:embed ext4.template
var template string

const (
	blockSize = 4096
	// recordSize is the size of a block and its number.
	recordSize = 4 + blockSize
)

// expand writes the template's blocks to a disk.
func expand(w io.WriterAt) error {
	r := bufio.NewReader(flate.NewReader(strings.NewReader(template)))
	for record := make([]byte, recordSize); ; {
		if _, err := io.ReadFull(r, record); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		block := int64(binary.LittleEndian.Uint32(record))
		if _, err := w.WriteAt(record[4:], block*blockSize); err != nil {
			return err
		}
	}
}
