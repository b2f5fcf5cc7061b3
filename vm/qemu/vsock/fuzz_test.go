//go:build linux

package vsock

import (
	"io"
	"sync"
	"testing"
)

// FuzzPacket sends packets to a device with a listener that echoes. The input is a sequence of
// packets: a byte with the length of the data, a header, the data.
func FuzzPacket(f *testing.F) {
	packet := func(op uint16, flags, credit uint32, data string) []byte {
		h := header{srcCID: guestCID, dstCID: hostCID, srcPort: 1, dstPort: hostPort, len: uint32(len(data)), typ: typeStream, op: op, flags: flags, bufAlloc: credit}
		b := h.bytes()
		return append(append([]byte{byte(len(data))}, b...), data...)
	}
	script := func(ps ...[]byte) (all []byte) {
		for _, p := range ps {
			all = append(all, p...)
		}
		return all
	}
	f.Add(script(packet(opRequest, 0, 1<<16, ""), packet(opRW, 0, 1<<16, "hello"), packet(opShutdown, shutSend, 1<<16, ""), packet(opShutdown, shutBoth, 0, "")))
	f.Add(script(packet(opRequest, 0, 3, ""), packet(opRW, 0, 3, "hello"), packet(opCreditUpdate, 0, 1<<31, ""), packet(opCreditRequest, 0, 0, ""), packet(opRST, 0, 0, "")))
	f.Add(script(packet(opResponse, 0, 0, ""), packet(opRequest, 0, 0, ""), packet(opRequest, 0, 0, ""), packet(99, 0, 0, "x")))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := New(guestCID)
		g := startGuest(t, d)
		g.do(func() { g.seen = func(*header, []byte) bool { return true } }) // it sends only the script
		l := listen(t, d)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer c.Close()
					_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
				})
			}
		})
		for len(in) > headerLen {
			n := min(int(in[0]), len(in)-1-headerLen)
			p := in[1 : 1+headerLen+n]
			g.do(func() { g.sendRaw(p) })
			in = in[1+len(p):]
		}
		g.do(func() { // the device has handled all of it
			g.tx.Stop()
			g.rx.Stop()
		})
		d.mu.Lock()
		if len(d.stray) > maxStray || len(d.placed[fromGuest]) > maxConns {
			t.Errorf("%d resets wait, %d connections", len(d.stray), len(d.placed[fromGuest]))
		}
		for _, c := range d.conns {
			c.mu.Lock()
			if c.in.n > c.window || c.window > lastWindow {
				t.Errorf("%d bytes in a window of %d", c.in.n, c.window)
			}
			c.mu.Unlock()
		}
		d.mu.Unlock()
		d.Close()
		wg.Wait()
		atRest(t, d)
	})
}

// FuzzFIFO checks the byte queue against a plain slice.
func FuzzFIFO(f *testing.F) {
	f.Add([]byte{200, 10, 255, 255, 0, 1})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var q fifo
		var want []byte
		next, most := byte(0), 0
		for i, s := range steps {
			n := int(s) * 67
			if i%2 == 0 {
				p := make([]byte, n)
				for j := range p {
					p[j] = next
					next++
				}
				src := iov{p[:n/3], p[n/3 : n/3], p[n/3:]}
				q.fill(&src, n)
				want = append(want, p...)
				most = max(most, 2*len(want))
			} else {
				p := make([]byte, n)
				p = p[:q.take(p)]
				if len(p) != min(n, len(want)) || string(p) != string(want[:len(p)]) {
					t.Fatalf("step %d: took %d bytes of %d, or the wrong ones", i, len(p), len(want))
				}
				want = want[len(p):]
			}
			if q.n != len(want) || len(q.ring) > most || q.n == 0 && q.ring != nil {
				t.Fatalf("step %d: %d bytes in a ring of %d, want %d bytes", i, q.n, len(q.ring), len(want))
			}
		}
	})
}
