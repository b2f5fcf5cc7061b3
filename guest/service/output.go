//go:build linux

package service

import (
	"cmp"
	"math"
	"os"
	"slices"
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
	bound = min(bound, engine.MaxOutputLimit)
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
	o.tail.cut()
	for b := range slices.Chunk(o.tail.kept, protocol.Chunk) {
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
	kept    []byte // the last ones, and up to tailSlack more, to move them seldom
	dropped uint64
}

const tailSlack = 256 << 10

func (t *tail) write(b []byte) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > t.size+tailSlack {
		t.cut()
	}
}

// cut drops all but the last bytes.
func (t *tail) cut() {
	over := max(0, len(t.kept)-t.size)
	t.kept = append(t.kept[:0], t.kept[over:]...)
	t.dropped += uint64(over)
}

// idle is a timer that each input and output of a command restarts.
type idle struct {
	after time.Duration
	*time.Timer
}

func newIdle(nanos int64) idle {
	after := limit(nanos)
	return idle{after, time.NewTimer(after)}
}

func (i idle) touch() { i.Reset(i.after) }

// limit returns a time limit of a command. No command lasts as long as that of 0.
func limit(nanos int64) time.Duration { return time.Duration(cmp.Or(nanos, math.MaxInt64)) }
