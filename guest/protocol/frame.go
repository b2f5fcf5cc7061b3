package protocol

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// A line is a connection that runs commands without input, one after another. Both ends send
// frames. The host sends a Start for each command and closes the line to end a running one. The
// guest answers with the same messages as on a stream; a fault may replace the last.

// Frame is the kind of a frame.
type Frame byte

const (
	FrameMessage Frame = iota // an ExecRequest or ExecResponse
	FrameFault                // a Fault
)

// frameHeader is the size of a frame's header: its kind and its length.
const frameHeader = 1 + 4

// Kept returns the buffer to keep for the next command, or nil if a rare large frame made it too large.
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

// ReadFrame reads a frame of at most MaxMessage into a buffer and returns the buffer, which it
// grows if needed. It returns io.EOF at the end of a line.
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
	_, _ = r.Discard(frameHeader) // already peeked
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
