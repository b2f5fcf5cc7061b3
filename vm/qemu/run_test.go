//go:build linux

package qemu

import "testing"

// A QEMU that ends well has ended well, even if its output is still open.
func TestOutputStaysOpen(t *testing.T) {
	r := &run{exited: make(chan struct{})}
	if err := r.start("/bin/sh", []string{"-c", "sleep 3 & exit 0"}, nil); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	if err := r.cause(); err != nil {
		t.Error(err)
	}
}
