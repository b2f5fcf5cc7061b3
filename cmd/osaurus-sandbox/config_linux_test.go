package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Without a daemon, a wrong or taken address for MCP is refused too.
func TestSetListenerWithoutADaemon(t *testing.T) {
	t.Setenv(config.HomeVariable, filepath.Join(t.TempDir(), "home"))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for at, want := range map[string]int{taken.Addr().String(): fault.ExitUnavailable, "192.0.2.1:8138": fault.ExitInvalidArgs, "localhost": fault.ExitInvalidArgs} {
		fails(t, want, at, "config", "set", "mcp.listen="+at)
	}
	prints(t, "\n", "config", "get", "mcp.listen")
}

// TestDaemonHoldsNothingOfItsStarter checks that a daemon inherits no files of the command that
// starts it. A reader of the command's pipe would wait for the daemon.
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
	ok(t, "status")
}
