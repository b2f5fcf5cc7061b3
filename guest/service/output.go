//go:build linux

package service

import (
	"os"
	"sync"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
)

// output is one stream of a command to the host.
type output struct {
	file   *os.File
	stderr bool
	wrap   func([]byte) *guestpb.ExecResponse

	// With a bound, what is beyond the head is kept until the end, and of that
	// the last.
	bounded bool
	head    uint64 // that may still be sent as it comes
	tail    tail
}

// headPart is how much of a bounded output is its head, in hundredths: what a
// program says last matters more than what it says first.
const headPart = 40

func newOutput(file *os.File, stderr bool, bound uint64) *output {
	head := bound * headPart / 100
	wrap := stdoutMessage
	if stderr {
		wrap = stderrMessage
	}
	return &output{file: file, stderr: stderr, wrap: wrap, bounded: bound > 0, head: head, tail: tail{size: int(bound - head)}}
}

func stdoutMessage(b []byte) *guestpb.ExecResponse {
	return &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stdout{Stdout: b}}
}

func stderrMessage(b []byte) *guestpb.ExecResponse {
	return &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stderr{Stderr: b}}
}

// finish has the pump end at the end of the stream or, if somebody keeps it open, after
// sandbox.Linger, with what is in it then.
func (o *output) finish() {
	_ = o.file.SetReadDeadline(time.Now().Add(engine.Linger))
}

// pump carries the stream. It reads on only when the host has taken what was
// read before, so a slow host slows the command and costs one chunk.
func (o *output) pump(c *command) {
	err := process.Carry(o.file, make([]byte, protocol.Chunk), func(b []byte) error {
		c.idle.touch()
		defer c.idle.touch() // a slow host is not the command's idleness
		return o.carry(c, b)
	})
	if err != nil {
		return // the host is gone: the call's context says so too
	}
	for b := range o.tail.chunks(protocol.Chunk) {
		if c.send(o.wrap(b)) != nil {
			return
		}
	}
}

// carry sends what is of the head and keeps what may be of the tail.
func (o *output) carry(c *command, b []byte) error {
	if !o.bounded {
		return c.send(o.wrap(b))
	}
	now := min(uint64(len(b)), o.head)
	o.head -= now
	o.tail.write(b[now:])
	if now == 0 {
		return nil
	}
	return c.send(o.wrap(b[:now]))
}

// tail keeps the last bytes of what is written to it.
type tail struct {
	size    int
	kept    []byte // a ring once it is full
	at      int    // where the oldest is
	dropped uint64
}

func (t *tail) write(b []byte) {
	if over := len(b) - t.size; over > 0 {
		t.dropped += uint64(over)
		b = b[over:]
	}
	grow := min(len(b), t.size-len(t.kept))
	t.kept = append(t.kept, b[:grow]...)
	for b = b[grow:]; len(b) > 0; {
		n := copy(t.kept[t.at:], b)
		t.dropped += uint64(n)
		t.at = (t.at + n) % len(t.kept)
		b = b[n:]
	}
}

// chunks are the bytes in order, in pieces.
func (t *tail) chunks(size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, part := range [][]byte{t.kept[t.at:], t.kept[:t.at]} {
			for len(part) > 0 {
				n := min(size, len(part))
				if !yield(part[:n]) {
					return
				}
				part = part[n:]
			}
		}
	}
}

// idle ends a command that neither writes nor is written to.
type idle struct {
	after time.Duration
	timer *time.Timer // nil: never
	once  sync.Once
	over  chan struct{} // closed when it was idle for so long
}

func newIdle(nanos int64) *idle {
	i := &idle{after: time.Duration(nanos), over: make(chan struct{})}
	if i.after > 0 {
		i.timer = time.AfterFunc(i.after, func() { i.once.Do(func() { close(i.over) }) })
	}
	return i
}

func (i *idle) touch() {
	if i.timer != nil {
		i.timer.Reset(i.after)
	}
}

func (i *idle) stop() {
	if i.timer != nil {
		i.timer.Stop()
	}
}
