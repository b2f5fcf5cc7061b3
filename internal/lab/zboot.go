package lab

import "encoding/binary"

// zbootHeader is the size of the header of Alpine's zboot kernels.
const zbootHeader = 51832

// Zboot wraps a compressed arm64 Image like CONFIG_EFI_ZBOOT: in a PE program with the
// payload's position, but without the code that unpacks it.
func Zboot(payload []byte, algorithm string) []byte {
	b := make([]byte, zbootHeader, zbootHeader+len(payload)+512)
	copy(b, "MZ")
	copy(b[4:], "zimg")
	binary.LittleEndian.PutUint32(b[8:], zbootHeader)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(payload)))
	copy(b[0x18:0x38], algorithm)
	binary.LittleEndian.PutUint32(b[0x38:], 0x818223cd) // the magic of a PE image for Linux
	return append(append(b, payload...), make([]byte, 512)...)
}
