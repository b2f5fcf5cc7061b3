//go:build linux

package service

import (
	"os"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
)

// output copies one output stream of a command to the host.
type output struct {
	file   *os.File
	stderr bool
	wrap   func([]byte) *guestpb.ExecResponse

	// With a bound, the beginning (head) is sent at once. Of the rest only the last bytes (tail)
	// are kept, and sent at the end.
	bounded bool
	head    uint64 // bytes that may still be sent at once
	tail    tail
}

// headPart is the percentage of a bounded output that is its head. The end of an output usually
// matters more than its beginning.
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

// finish makes pump stop at the end of the stream. If another process keeps the stream open, pump
// stops after engine.Linger and sends what is buffered.
func (o *output) finish() {
	_ = o.file.SetReadDeadline(time.Now().Add(engine.Linger))
}

// pump copies the stream. It reads the next chunk only after the host has taken the last, so a slow
// host slows the command down instead of using memory.
func (o *output) pump(c *command) {
	err := process.Carry(o.file, make([]byte, protocol.Chunk), func(b []byte) error {
		c.idle.touch()
		defer c.idle.touch() // time spent waiting for a slow host does not count as idle
		return o.carry(c, b)
	})
	if err != nil {
		return // the host is gone, which also cancels the context
	}
	for b := range o.tail.chunks(protocol.Chunk) {
		if c.send(o.wrap(b)) != nil {
			return
		}
	}
}

// carry sends the part of b that belongs to the head and adds the rest to the tail.
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

// tail keeps the last bytes written to it.
type tail struct {
	size    int
	kept    []byte // ring buffer once full
	at      int    // index of the oldest byte
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

// chunks yields the bytes in order, in pieces of at most size.
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

// idle is a timer that each input and output of a command restarts.
type idle struct {
	after       time.Duration
	*time.Timer // nil for no limit
}

func newIdle(nanos int64) idle {
	i := idle{after: time.Duration(nanos)}
	if i.after > 0 {
		i.Timer = time.NewTimer(i.after)
	}
	return i
}

func (i idle) touch() {
	if i.Timer != nil {
		i.Reset(i.after)
	}
}

func (i idle) stop() {
	if i.Timer != nil {
		i.Stop()
	}
}
