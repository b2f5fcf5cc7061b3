//go:build linux

package process

import (
	"os"
	"testing"
	"time"
)

func TestReadLeft(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	b := make([]byte, 10)
	for _, text := range []string{"left", "more"} {
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil { // long ago
			t.Fatal(err)
		}
		if n, err := r.Read(b); err == nil {
			t.Errorf("Read looks: %q", b[:n]) // then nobody needs this
		}
		if n := ReadLeft(r, b); string(b[:n]) != text {
			t.Errorf("%q is left, want %q", b[:n], text)
		}
		if n := ReadLeft(r, b); n != 0 {
			t.Errorf("of nothing there is %q", b[:n])
		}
	}
}
