// Package floor makes the shortest boot and the shortest program that there can be, for others to be measured by.
package floor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
)

// The call reboot(LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF)
// and an endless loop, in the words of each processor. There is no runtime
// around it, whose start would raise the floor.
var powerOff = map[vm.Arch][]byte{
	vm.AMD64: {
		0xb8, 169, 0, 0, 0, // mov eax, reboot
		0xbf, 0xad, 0xde, 0xe1, 0xfe, // mov edi, magic1
		0xbe, 0x69, 0x19, 0x12, 0x28, // mov esi, magic2
		0xba, 0xdc, 0xfe, 0x21, 0x43, // mov edx, power off
		0x0f, 0x05, // syscall
		0xeb, 0xfe, // jmp to itself
	},
	vm.ARM64: words(
		0x52800000|142<<5|8,                        // mov w8, reboot
		0x52800000|0xdead<<5, 0x72a00000|0xfee1<<5, // mov w0, magic1
		0x52800000|0x1969<<5|1, 0x72a00000|0x2812<<5|1, // mov w1, magic2
		0x52800000|0xfedc<<5|2, 0x72a00000|0x4321<<5|2, // mov w2, power off
		0xd4000001, // svc 0
		0x14000000, // b to itself
	),
}

func words(instructions ...uint32) []byte {
	var b []byte
	for _, i := range instructions {
		b = binary.LittleEndian.AppendUint32(b, i)
	}
	return b
}

// WriteInitramfs writes the initramfs for an architecture.
func WriteInitramfs(w io.Writer, arch vm.Arch) error {
	code, ok := powerOff[arch]
	if !ok {
		return fmt.Errorf("no floor for %s", arch)
	}
	return image.WriteCPIO(w, []image.CPIOEntry{
		{Name: "dev", Mode: image.CPIODir | 0o755},
		{Name: "dev/console", Mode: image.CPIODevice | 0o600, Major: 5, Minor: 1},
		{Name: "init", Mode: image.CPIOFile | 0o755, Data: program(arch, code)},
	})
}

// The call exit(0).
var exit = map[vm.Arch][]byte{
	vm.AMD64: {
		0xb8, 60, 0, 0, 0, // mov eax, exit
		0x31, 0xff, // xor edi, edi
		0x0f, 0x05, // syscall
	},
	vm.ARM64: words(
		0x52800000|93<<5|8, // mov w8, exit
		0x52800000,         // mov w0, 0
		0xd4000001,         // svc 0
	),
}

// True is the shortest program that there can be: static, and it succeeds.
func True(arch vm.Arch) []byte { return program(arch, exit[arch]) }

// program is a static executable whose only content is code.
func program(arch vm.Arch, code []byte) []byte {
	const (
		headers = 64 + 56
		base    = 0x400000
	)
	machine := map[vm.Arch]uint16{vm.AMD64: 62, vm.ARM64: 183}[arch]
	size := uint64(headers + len(code))
	var b bytes.Buffer
	for _, field := range []any{
		[16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, uint16(2), machine, uint32(1), // 64 bits, little endian, executable
		uint64(base + headers), uint64(64), uint64(0), uint32(0), // entry, program headers
		uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x10000), // load all, to read and run
	} {
		_ = binary.Write(&b, binary.LittleEndian, field) // a Buffer takes everything
	}
	b.Write(code)
	return b.Bytes()
}
