//go:build linux

package service_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// Where no worker can have a connection, the service answers in its place.
func TestFilesWithoutRooms(t *testing.T) {
	checkLeaks(t)
	dial := serve(t, &host{})
	ask := func(c *guest.Client) error {
		_, err := c.Room("agent-alice").StatFile(t.Context(), engine.File{Root: "/", Path: "etc"})
		return err
	}
	if err := ask(connected(t, dial)); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "has no rooms") {
		t.Errorf("with the key: %v", err)
	}
	for name, tc := range map[string]struct {
		begin []byte
		want  string
	}{
		"with another key": {protocol.DataHeader{Key: protocol.Key{1}, User: "agent-alice"}.Bytes(), "not the key of this boot"},
		"with nothing":     {[]byte(strings.Repeat("x", 100)), ""},
	} {
		c, err := dial(t.Context(), guest.EntryPort)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(append(tc.begin, "POST /osaurus.guest.v1.Files/Stat HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"...))
		answer, err := io.ReadAll(c) // which may end with what was never read
		if (tc.want == "") != (len(answer) == 0) || !strings.Contains(string(answer), tc.want) || err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}
