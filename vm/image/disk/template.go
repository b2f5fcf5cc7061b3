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

// The template is what mke2fs makes of an empty file of MinSize: deflated,
// each block that is not zero with its number before it. To make a disk from
// it, a host needs no mkfs.
//
//go:generate go run ./template ext4.template
//go:embed ext4.template
var template string

const (
	blockSize = 4096
	// recordSize is a block with its number before it.
	recordSize = 4 + blockSize
)

// expand writes the template's blocks to their places.
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
