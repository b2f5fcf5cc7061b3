//go:build linux

package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCarryWhatIsLeft checks that buffered data is passed on after the deadline.
func TestCarryWhatIsLeft(t *testing.T) {
	for _, open := range []bool{false, true} {
		r, w := pipe(t)
		text := strings.Repeat("what is left\n", 100)
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if !open {
			_ = w.Close()
		}
		if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil { // long ago
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 10)); err == nil {
			t.Errorf("Read looks, and finds %d bytes", n) // then Carry needs no loop of its own
		}
		var got strings.Builder
		err := Carry(r, make([]byte, 10), func(b []byte) error { _, err := got.Write(b); return err })
		if err != nil || got.String() != text {
			t.Errorf("kept open: %v, %q, %v", open, got.String(), err)
		}
	}
}

// TestCarryFromWhoWritesOn checks that Carry ends although a process keeps writing.
func TestCarryFromWhoWritesOn(t *testing.T) {
	r, w := pipe(t)
	go func() {
		for b := make([]byte, 1<<10); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}()
	got, chunk := 0, make([]byte, 1<<10)
	err := Carry(r, chunk, func(b []byte) error {
		if got == 0 {
			_ = r.SetReadDeadline(time.Now())
		}
		got += len(b)
		for n := 0; n < len(chunk); n, _ = unix.IoctlGetInt(int(w.Fd()), unix.TIOCINQ) {
			time.Sleep(time.Millisecond) // there is more each time
		}
		return nil
	})
	if most := len(chunk) + holds(r); err != nil || got <= len(chunk) || got > most {
		t.Errorf("%d bytes, of at most %d, %v", got, most, err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}
