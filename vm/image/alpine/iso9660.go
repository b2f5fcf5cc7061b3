package alpine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

const (
	sectorSize = 2048
	// firstDescriptor is the sector of the first volume descriptor.
	firstDescriptor = 16
	// maxDescriptors bounds the volume descriptors. Images have five.
	maxDescriptors = 64
	// maxDirectory bounds a folder in bytes: room for 10,000 entries.
	maxDirectory = 2 << 20
	// maxContinuations bounds the continuation areas of an entry. A long name needs one.
	maxContinuations = 4
	// maxName is Linux's own limit.
	maxName = 255
)

var le = binary.LittleEndian

// Image is an ISO 9660 image.
type Image struct {
	r    io.ReaderAt
	root extent
}

// extent is the position of a file or folder in bytes.
type extent struct {
	at, size int64
	folder   bool
}

// New reads the descriptors of an image.
func New(r io.ReaderAt) (*Image, error) {
	var b [sectorSize]byte
	for n := range int64(maxDescriptors) {
		if _, err := r.ReadAt(b[:], (firstDescriptor+n)*sectorSize); err != nil {
			return nil, fmt.Errorf("iso9660: volume descriptor: %w", err)
		}
		if string(b[1:6]) != "CD001" {
			return nil, errors.New("iso9660: not an ISO 9660 image")
		}
		switch b[0] {
		case 1: // the primary descriptor
			if le.Uint16(b[128:]) != sectorSize {
				return nil, fmt.Errorf("iso9660: blocks of %d bytes", le.Uint16(b[128:]))
			}
			record, err := parseRecord(b[156:190])
			if err != nil || !record.folder {
				return nil, errors.New("iso9660: no root folder")
			}
			return &Image{r, record.extent}, nil
		case 255: // the end
			return nil, errors.New("iso9660: no primary volume descriptor")
		}
	}
	return nil, errors.New("iso9660: too many volume descriptors")
}

// Open opens a regular file by its Rock Ridge name. Without one, it compares names without
// case and version.
func (i *Image) Open(name string) (*io.SectionReader, error) {
	at, err := i.find(name)
	if err == nil && at.folder {
		err = errors.New("is a directory")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return io.NewSectionReader(i.r, at.at, at.size), nil
}

func (i *Image) find(name string) (extent, error) {
	if !fs.ValidPath(name) {
		return extent{}, fs.ErrInvalid
	}
	at := i.root
	for part := range strings.SplitSeq(name, "/") {
		if !at.folder {
			return extent{}, fs.ErrNotExist
		}
		var err error
		if at, err = i.lookup(at, part); err != nil {
			return extent{}, err
		}
	}
	return at, nil
}

func (i *Image) lookup(folder extent, name string) (extent, error) {
	if folder.size > maxDirectory {
		return extent{}, fmt.Errorf("iso9660: a folder of %d bytes", folder.size)
	}
	listing := make([]byte, folder.size)
	if _, err := i.r.ReadAt(listing, folder.at); err != nil {
		return extent{}, fmt.Errorf("iso9660: %w", err)
	}
	for len(listing) > 0 {
		length := int(listing[0])
		if length == 0 { // the rest of the sector is empty
			listing = listing[min(len(listing), (len(listing)-1)%sectorSize+1):]
			continue
		}
		if length > len(listing) {
			return extent{}, errors.New("iso9660: truncated folder")
		}
		r, err := parseRecord(listing[:length])
		if err != nil {
			return extent{}, err
		}
		listing = listing[length:]
		long, err := i.rockRidgeName(r.attributes)
		if err != nil {
			return extent{}, err
		}
		if long == name || long == "" && strings.EqualFold(r.name, name) {
			if r.continued {
				return extent{}, errors.New("iso9660: a file in several parts")
			}
			return r.extent, nil
		}
	}
	return extent{}, fs.ErrNotExist
}

// record is an entry of a folder.
type record struct {
	extent
	name       string // without its version
	continued  bool   // another part of the file follows
	attributes []byte // of the system use sharing protocol, such as Rock Ridge
}

func parseRecord(b []byte) (record, error) {
	if len(b) < 34 {
		return record{}, errors.New("iso9660: truncated entry")
	}
	length := int(b[32])
	end := 33 + length
	if length == 0 || end > len(b) {
		return record{}, errors.New("iso9660: truncated name")
	}
	name, _, _ := strings.Cut(string(b[33:end]), ";")
	end += 1 - length%2 // a pad byte follows a name of even length
	return record{
		extent: extent{int64(le.Uint32(b[2:])) * sectorSize, int64(le.Uint32(b[10:])), b[25]&0x02 != 0},
		name:   strings.TrimSuffix(name, "."), continued: b[25]&0x80 != 0,
		attributes: b[min(end, len(b)):],
	}, nil
}
