package protocol

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
)

const (
	// limit bounds what happens at once.
	limit = 30 * time.Second
	// never does not pass in a test; brief is waited for.
	never, brief = 10 * time.Minute, 100 * time.Millisecond
)

// testListener returns a listener and a function that connects to it and writes.
func testListener(t *testing.T, key BridgeKey, timeout time.Duration) (*Listener, func(says []byte) net.Conn) {
	t.Helper()
	timetest.NoLeaks(t)
	path := filepath.Join(t.TempDir(), "socket")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := listenBridge(inner, key, timeout)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, func(says []byte) net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(limit))
		_, _ = c.Write(says) // fails if the timeout was shorter
		return c
	}
}

// TestStrangers checks that connections without the key, or with half a header, are closed and do not
// delay one with the key.
func TestStrangers(t *testing.T) {
	key := NewBridgeKey()
	l, dial := testListener(t, key, never)
	good := Caller{Key: key, UID: 2001}.Bytes()
	closed := func(strangers ...net.Conn) {
		t.Helper()
		for i, s := range strangers {
			if b, err := io.ReadAll(s); len(b) > 0 || errors.Is(err, net.ErrClosed) || isTimeout(err) {
				t.Errorf("stranger %d reads %q, %v", i, b, err)
			}
		}
	}
	dial(nil)
	dial(good[:len(good)-1])
	strangers := []net.Conn{
		dial(Caller{Key: NewBridgeKey(), UID: 2001}.Bytes()),
		dial([]byte("GET /api/secrets/TOKEN HTTP/1.1\r\nHost: localhost\r\n\r\n")),
	}
	dial(append(good, "hello"...))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := make([]byte, 5)
	if _, err := io.ReadFull(c, hello); err != nil || string(hello) != "hello" || c.(*BridgeConn).UID() != 2001 {
		t.Errorf("user %d sends %q, %v", c.(*BridgeConn).UID(), hello, err)
	}
	closed(strangers...)
	_, hurried := testListener(t, key, brief)
	closed(hurried(nil), hurried(good[:len(good)-1]))
}

func isTimeout(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return ok && slow.Timeout()
}

func TestListenerCloses(t *testing.T) {
	key := NewBridgeKey()
	l, dial := testListener(t, key, never)
	waiting, ready := dial(nil), dial(Caller{Key: key}.Bytes())
	closed := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { closed <- l.Close() })
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n, err := waiting.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Error("a connection without a header outlived the listener", n, err)
	}
	_ = ready.Close()
	if _, err := net.Dial("unix", l.Addr().String()); err == nil {
		t.Error("the inner listener is open")
	}
	if err := l.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
