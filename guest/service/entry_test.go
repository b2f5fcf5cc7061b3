//go:build linux

package service_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// counted counts the connections that a client makes.
type counted struct {
	dial guest.Dialer
	made atomic.Int32
}

func (c *counted) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	c.made.Add(1)
	return c.dial(ctx, port)
}

// TestCommandsShareConnections checks that a connection serves one command after another, even if
// one cannot start, but not after a command was cancelled.
func TestCommandsShareConnections(t *testing.T) {
	timetest.NoLeaks(t)
	count := &counted{dial: serve(t, &host{})}
	c := connected(t, count.Dial)
	run := func() {
		t.Helper()
		if exit, err := c.Run(t.Context(), engine.Command{Args: []string{"true"}}); err != nil || exit.Status() != 0 {
			t.Fatalf("%+v %v", exit, err)
		}
	}
	run()
	first := count.made.Load()
	for range 5 {
		run()
		if _, err := c.Run(t.Context(), engine.Command{Args: []string{"/no/such/program"}}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("no such program: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := c.Exec(ctx, engine.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	// The transport gives up a connection if it learns late that a request was written.
	const spare = 3
	shared := count.made.Load()
	if shared > first+spare {
		t.Errorf("%d connections for a dozen commands, %d for the first", shared, first)
	}
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	run()
	if n := count.made.Load(); n != shared+1 {
		t.Errorf("%d connections after a cancelled command, want %d", n, shared+1)
	}
}

// TestFilesWithoutRoom checks that the service answers when no worker can.
func TestFilesWithoutRoom(t *testing.T) {
	timetest.NoLeaks(t)
	dial := serve(t, &host{})
	ask := func(c *guest.Client) error {
		_, err := c.Room("agent-alice").StatFile(t.Context(), engine.File{Root: "/", Path: "etc"})
		return err
	}
	if err := ask(connected(t, dial)); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "no such room") {
		t.Errorf("with the key: %v", err)
	}
	for name, tc := range map[string]struct {
		begin []byte
		want  string
	}{
		"files with another key":    {protocol.DataHeader{Key: protocol.Key{1}, User: "agent-alice"}.Bytes(), "not the key of this boot"},
		"commands with another key": {protocol.DataHeader{Key: protocol.Key{1}}.Bytes(), "not the key of this boot"},
		"with nothing":              {[]byte(strings.Repeat("x", 100)), ""},
	} {
		c, err := dial(t.Context(), guest.EntryPort)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(append(tc.begin, "POST /osaurus.guest.v1.Files/Stat HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"...))
		answer, err := io.ReadAll(c) // may end with a reset, since the request was not read
		if (tc.want == "") != (len(answer) == 0) || !strings.Contains(string(answer), tc.want) || err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}
