package redact

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pause is how long held text waits for more input before it is written. People want to see
	// what they type.
	pause = 100 * time.Millisecond
	// maxShown is how many undecided bytes are written after the pause. If they begin a secret,
	// the rest of it is still replaced.
	maxShown = 3
)

// Live holds the current Scrubber, since secrets change while programs run. A nil
// Live has none.
type Live struct{ now atomic.Pointer[Scrubber] }

// Set replaces the Scrubber.
func (l *Live) Set(s *Scrubber) { l.now.Store(s) }

// Scrubber returns the current Scrubber, which may be nil.
func (l *Live) Scrubber() *Scrubber {
	if l == nil {
		return nil
	}
	return l.now.Load()
}

// Output replaces values in the streams of one program, which may share a
// destination.
type Output struct {
	live    *Live
	mu      sync.Mutex // held while writing
	streams []*stream
}

// NewOutput returns an output that replaces the secrets of live.
func NewOutput(live *Live) *Output { return &Output{live: live} }

// Writer returns a stream that writes to a writer. Text that may begin a value is written with the
// next text, after a pause, or by Close.
func (o *Output) Writer(to io.Writer) io.Writer {
	s := &stream{output: o, to: to, flow: NewFlow(o.live, Whole)}
	o.streams = append(o.streams, s)
	return s
}

// Close writes the held text. Nothing may be written afterwards.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first error
	for _, s := range o.streams {
		if err := s.end(); first == nil {
			first = err
		}
	}
	return first
}

type stream struct {
	output *Output
	to     io.Writer
	flow   *Flow
	idle   *time.Timer // set while held text waits for a pause
	writes int         // number of calls of Write
	failed error       // of a write after a pause
	buffer []byte
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	s.stop()
	s.writes++
	if s.failed != nil {
		return 0, s.failed
	}
	if s.flow.idle() {
		return s.to.Write(p)
	}
	if err := s.write(s.flow.Feed(s.buffer[:0], p)); err != nil {
		return 0, err
	}
	if s.flow.Held() > 0 && s.flow.finder.undecided() <= maxShown {
		writes := s.writes
		s.idle = time.AfterFunc(pause, func() { s.paused(writes) })
	}
	return len(p), nil
}

// paused writes the held text, unless more was written in the meantime.
func (s *stream) paused(writes int) {
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	if s.idle == nil || s.writes != writes {
		return
	}
	s.idle = nil
	s.failed = s.write(s.flow.End(s.buffer[:0]))
}

func (s *stream) stop() {
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

func (s *stream) end() error {
	s.stop()
	if s.failed == nil {
		s.failed = s.write(s.flow.End(s.buffer[:0]))
	}
	return s.failed
}

func (s *stream) write(out []byte) error {
	const keep = 128 << 10 // one message of the guest with labels
	if s.buffer = out[:0]; cap(out) > keep {
		s.buffer = nil
	}
	if len(out) == 0 {
		return nil
	}
	_, err := s.to.Write(out)
	return err
}
