//go:build linux

package service

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// FuzzTail checks that the tail keeps the end and counts the rest, however it is written.
func FuzzTail(f *testing.F) {
	f.Add(10, 100, uint64(1))
	f.Add(1, 1, uint64(2))
	f.Add(600, 100000, uint64(3))
	f.Fuzz(func(t *testing.T, size, total int, seed uint64) {
		if size < 1 || size > 1<<16 || total < 0 || total > 1<<18 {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		all := make([]byte, total)
		for i := range all {
			all[i] = byte(rnd.Uint32())
		}
		k := tail{size: size}
		for rest := all; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			k.write(rest[:n])
			rest = rest[n:]
		}
		k.cut()
		got := k.kept
		want := all[max(0, total-size):]
		if !bytes.Equal(got, want) || k.dropped != uint64(total-len(want)) {
			t.Errorf("size %d, total %d: %d bytes kept, %d dropped", size, total, len(got), k.dropped)
		}
	})
}
