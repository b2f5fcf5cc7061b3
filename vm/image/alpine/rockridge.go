package alpine

import (
	"errors"
	"fmt"
	"strings"
)

// rockRidgeName puts a name together out of an entry's NM attributes, which
// may go on in another place (CE). It is empty where there are none.
func (i *Image) rockRidgeName(attributes []byte) (string, error) {
	var name strings.Builder
	for range maxContinuations {
		next := readNames(&name, attributes)
		if name.Len() > maxName {
			return "", fmt.Errorf("iso9660: a name of more than %d bytes", maxName)
		}
		if next.size == 0 {
			return name.String(), nil
		}
		if next.size > sectorSize {
			return "", errors.New("iso9660: attributes of more than a sector")
		}
		attributes = make([]byte, next.size)
		if _, err := i.r.ReadAt(attributes, next.at); err != nil {
			return "", fmt.Errorf("iso9660: %w", err)
		}
	}
	return "", errors.New("iso9660: attributes without end")
}

// readNames appends the name parts among the attributes and returns where the
// attributes go on. Each is two letters, a length, a version and its content.
func readNames(name *strings.Builder, b []byte) (next extent) {
	for len(b) >= 4 {
		length := int(b[2])
		if length < 4 || length > len(b) {
			break // padding, or nothing that can be made sense of
		}
		switch signature, content := string(b[:2]), b[4:length]; {
		case signature == "NM" && len(content) > 0:
			name.Write(content[1:]) // a byte of flags comes first
		case signature == "CE" && len(content) == 24:
			next = extent{at: int64(le.Uint32(content))*sectorSize + int64(le.Uint32(content[8:])), size: int64(le.Uint32(content[16:]))}
		case signature == "ST":
			return next
		}
		b = b[length:]
	}
	return next
}
