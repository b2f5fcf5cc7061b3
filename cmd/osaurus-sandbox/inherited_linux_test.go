package main

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestDaemonHoldsNothingOfItsStarter: who waits for the end of a pipe that a command was
// started with does not wait for the daemon that the command has started.
func TestDaemonHoldsNothingOfItsStarter(t *testing.T) {
	newHome(t, "home")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "agent", "create", "alice")
	cmd.ExtraFiles = []*os.File{write}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if err := read.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d bytes, %v: the daemon has the other end", n, err)
	}
	if code, _, stderr := sandbox(t, "status"); code != 0 {
		t.Errorf("there is no daemon: %d %s", code, stderr)
	}
}
