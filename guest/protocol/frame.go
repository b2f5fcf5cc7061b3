package protocol

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// A line is a connection of its own on which commands run one after the other, those
// that take no input. Both ends send frames. The host sends a Start when the
// command before has ended, and closes the line to end the one that runs. The guest
// answers with the messages that it would on a stream, or a fault in place of the
// last.

// Frame is what a frame holds.
type Frame byte

const (
	FrameMessage Frame = iota // an ExecRequest or ExecResponse
	FrameFault                // a Fault
)

// frameHeader is a Frame and the length of what follows.
const frameHeader = 1 + 4

// Kept is what a line keeps of a buffer until its next command: not what a rare large frame took.
func Kept(buf []byte) []byte {
	if cap(buf) > 2*Chunk {
		return nil
	}
	return buf[:0]
}

// AppendFrame appends a frame to a buffer.
func AppendFrame(buf []byte, kind Frame, m proto.Message) ([]byte, error) {
	at := len(buf)
	buf = append(buf, byte(kind), 0, 0, 0, 0)
	buf, err := proto.MarshalOptions{}.MarshalAppend(buf, m)
	if err != nil {
		return buf[:at], err
	}
	size := len(buf) - at - frameHeader
	if size > MaxMessage {
		return buf[:at], fmt.Errorf("a message of %d bytes is longer than %d", size, MaxMessage)
	}
	binary.BigEndian.PutUint32(buf[at+1:], uint32(size))
	return buf, nil
}

// ReadFrame reads a frame of at most MaxMessage into a buffer, which it returns, grown if
// it is too small. At the end of a line it fails with io.EOF.
func ReadFrame(r *bufio.Reader, buf []byte) (Frame, []byte, error) {
	header, err := r.Peek(frameHeader)
	if err != nil {
		if errors.Is(err, io.EOF) && len(header) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, buf, err
	}
	kind, size := Frame(header[0]), binary.BigEndian.Uint32(header[1:])
	if kind > FrameFault || size > MaxMessage {
		return 0, buf, fmt.Errorf("a frame of kind %d with %d bytes", kind, size)
	}
	_, _ = r.Discard(frameHeader) // it has been peeked at
	if int(size) > cap(buf) {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, buf, err
	}
	return kind, buf, nil
}
