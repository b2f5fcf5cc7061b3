//go:build linux

package pid1

import (
	"encoding/binary"
	"os"
	"path/filepath"
)

// button is an input device that may have a power key.
type button struct{ f *os.File }

// openButtons opens the machine's input devices. There are none where the
// kernel or the image has no driver for them.
func openButtons() []button {
	var list []button
	paths, _ := filepath.Glob("/dev/input/event*")
	for _, p := range paths {
		if f, err := os.Open(p); err == nil {
			list = append(list, button{f})
		}
	}
	return list
}

// watch calls pressed when the power key goes down.
func (b button) watch(pressed func()) {
	const (
		size     = 24 // of the kernel's struct input_event
		keyEvent = 1
		keyPower = 116
		down     = 1
	)
	defer b.f.Close()
	e := make([]byte, size)
	for {
		if n, err := b.f.Read(e); err != nil || n != size {
			return
		}
		kind, code, value := binary.LittleEndian.Uint16(e[16:]), binary.LittleEndian.Uint16(e[18:]), binary.LittleEndian.Uint32(e[20:])
		if kind == keyEvent && code == keyPower && value == down {
			pressed()
		}
	}
}
