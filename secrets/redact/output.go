package redact

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pause is how long a stream may say nothing before what is held back of it
	// is shown: a person before a terminal does not see what they typed before.
	pause = 100 * time.Millisecond
	// maxShown is how much of a beginning is shown then. It may turn out to be a
	// secret's: all but these bytes of it are replaced still. A longer one waits
	// for what follows, or for the end.
	maxShown = 3
)

// Live is the Scrubber that counts by now: secrets are set while programs run. A
// nil one has none.
type Live struct{ now atomic.Pointer[Scrubber] }

// Set changes it.
func (l *Live) Set(s *Scrubber) { l.now.Store(s) }

// Scrubber is the one that counts.
func (l *Live) Scrubber() *Scrubber {
	if l == nil {
		return nil
	}
	return l.now.Load()
}

// Output is what a program writes, which may be to several streams that end
// in one place.
type Output struct {
	live    *Live
	mu      sync.Mutex // of whoever writes
	streams []*stream
}

// NewOutput returns an output that the secrets of live are taken out of.
func NewOutput(live *Live) *Output { return &Output{live: live} }

// Writer returns a stream to a writer. It has what was written to it, but for
// at most the beginning of a value, which comes with what follows, after a
// pause, or with Close.
func (o *Output) Writer(to io.Writer) io.Writer {
	s := &stream{output: o, to: to, flow: NewFlow(o.live, Whole)}
	o.streams = append(o.streams, s)
	return s
}

// Close writes what is still held back. Nothing may be written after it; it may be
// called again.
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
	idle   *time.Timer // not nil while something waits for a pause
	failed error       // by a write after a pause
	buffer []byte
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	s.stop()
	if s.failed != nil {
		return 0, s.failed
	}
	if s.flow.idle() {
		return s.to.Write(p)
	}
	if err := s.write(s.flow.Feed(s.buffer[:0], p)); err != nil {
		return 0, err
	}
	if s.flow.Held() > 0 && s.flow.finder.plain() <= maxShown {
		s.idle = time.AfterFunc(pause, s.paused)
	}
	return len(p), nil
}

// paused shows what is held back.
func (s *stream) paused() {
	s.output.mu.Lock()
	defer s.output.mu.Unlock()
	if s.idle == nil {
		return // something was written meanwhile
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
	const keep = 128 << 10 // a message of the guest's, and its labels
	if s.buffer = out[:0]; cap(out) > keep {
		s.buffer = nil
	}
	if len(out) == 0 {
		return nil
	}
	_, err := s.to.Write(out)
	return err
}
