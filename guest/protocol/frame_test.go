package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
)

func TestFrameTooLong(t *testing.T) {
	b, err := AppendFrame([]byte("before"), FrameMessage, &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stdout{Stdout: make([]byte, MaxMessage)}})
	if err == nil || string(b) != "before" {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// FuzzReadFrame: whatever comes, frames are read up to one that is none, in bounded memory, and those that
// are read say the same when they are written again.
func FuzzReadFrame(f *testing.F) {
	good, err := AppendFrame(nil, FrameMessage, &guestpb.ExecResponse{What: &guestpb.ExecResponse_Exit{Exit: &guestpb.Exit{Code: 3}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, good[:len(good)-1]...))
	f.Add([]byte(strings.Repeat("\xff", 9)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		var buf []byte
		for read := 0; ; {
			kind, got, err := ReadFrame(r, buf)
			if err != nil {
				if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && read != len(b) {
					t.Errorf("the end after %d of %d bytes", read, len(b))
				}
				return
			}
			read += frameHeader + len(got)
			buf = got
			m := new(guestpb.ExecResponse)
			if proto.Unmarshal(got, m) != nil {
				continue
			}
			again, err := AppendFrame(nil, kind, m)
			if err != nil {
				t.Fatal(err)
			}
			_, same, err := ReadFrame(bufio.NewReader(bytes.NewReader(again)), nil)
			back := new(guestpb.ExecResponse)
			if err := errors.Join(err, proto.Unmarshal(same, back)); err != nil || !proto.Equal(m, back) {
				t.Errorf("%v became %v, %v", m, back, err)
			}
		}
	})
}
