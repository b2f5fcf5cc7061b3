package alpine

import (
	"errors"
	"fmt"
	"strings"
)

// rockRidgeName joins the NM attributes of an entry, which may continue elsewhere (CE). It
// returns "" if there are none.
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
	return "", errors.New("iso9660: too many continuation areas")
}

// readNames appends the NM attributes to name and returns the continuation area. An
// attribute has a two-letter signature, a length, a version and its content.
func readNames(name *strings.Builder, b []byte) (next extent) {
	for len(b) >= 4 {
		length := int(b[2])
		if length < 4 || length > len(b) {
			break // padding or invalid
		}
		switch signature, content := string(b[:2]), b[4:length]; {
		case signature == "NM" && len(content) > 0:
			name.Write(content[1:]) // after a byte of flags
		case signature == "CE" && len(content) == 24:
			next = extent{at: int64(le.Uint32(content))*sectorSize + int64(le.Uint32(content[8:])), size: int64(le.Uint32(content[16:]))}
		case signature == "ST":
			return next
		}
		b = b[length:]
	}
	return next
}
