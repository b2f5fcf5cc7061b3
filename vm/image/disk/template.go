package disk

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"errors"
	"io"
	"strings"
)

// template is a file system of MinSize made by mke2fs, so that hosts need no mkfs: a sparse file in a
// compressed archive, as text.
//
//go:generate ./template.sh
//go:embed template.base64
var template string

const blockSize = 4096

// expand writes the template's blocks that are not zero to a disk.
func expand(w io.WriterAt) error {
	unpacked, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(template)))
	if err != nil {
		return err
	}
	archive := tar.NewReader(unpacked)
	if _, err := archive.Next(); err != nil {
		return err
	}
	block, zero := make([]byte, blockSize), make([]byte, blockSize)
	for at := int64(0); ; at += blockSize {
		if _, err := io.ReadFull(archive, block); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if bytes.Equal(block, zero) {
			continue
		}
		if _, err := w.WriteAt(block, at); err != nil {
			return err
		}
	}
}
