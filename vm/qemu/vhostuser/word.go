//go:build linux

package vhostuser

import (
	"sync/atomic"
	"unsafe"
)

// Go has no 16-bit atomics, so the shared 16-bit ring fields are accessed
// through the aligned 32-bit word that holds them. Regions start and end on
// multiples of four, so that word is always inside the mapping. All accesses
// are sequentially consistent, which is what the "publish, then look at the
// other side's event index" pattern of virtio needs on both ends.

func word(b []byte, off int) (*uint32, uint) {
	p := unsafe.Pointer(&b[off])
	o := uintptr(p) & 3
	return (*uint32)(unsafe.Add(p, -int(o))), uint(o) * 8
}

func load16(b []byte, off int) uint16 {
	w, shift := word(b, off)
	return uint16(atomic.LoadUint32(w) >> shift)
}

func store16(b []byte, off int, v uint16) {
	w, shift := word(b, off)
	for {
		old := atomic.LoadUint32(w)
		if atomic.CompareAndSwapUint32(w, old, old&^(0xffff<<shift)|uint32(v)<<shift) {
			return
		}
	}
}
