package preface_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"osaurus-sandbox/guest/preface"
)

const (
	// limit is how long what comes at once may take.
	limit = 30 * time.Second
	// ever is what nobody waits for, and brief what is waited out.
	ever, brief = 10 * time.Minute, 100 * time.Millisecond
)

// listen returns a listener of prefaces, and how to connect to it.
func listen(t *testing.T, key preface.Key) (*preface.Listener, func(says []byte) net.Conn) {
	t.Helper()
	l, dial := listenFor(t, key, ever)
	return l, func(says []byte) net.Conn {
		c, err := dial(says)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// listenFor is listen with another patience. Where that is short, the connection can be
// closed before it has said anything.
func listenFor(t *testing.T, key preface.Key, patience time.Duration) (*preface.Listener, func(says []byte) (net.Conn, error)) {
	t.Helper()
	before := runtime.NumGoroutine()
	path := filepath.Join(t.TempDir(), "socket")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := preface.ListenFor(inner, key, patience)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(limit); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d goroutines became %d", before, runtime.NumGoroutine())
			}
		}
	})
	return l, func(says []byte) (net.Conn, error) {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(limit))
		_, err = c.Write(says)
		return c, err
	}
}

// A connection says whose it is, and its first byte is the program's.
func TestListener(t *testing.T) {
	key := preface.NewKey()
	l, dial := listen(t, key)
	dial(append(preface.Preface{Key: key, UID: 2001}.Bytes(), "hello"...))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	said := make([]byte, 5)
	if _, err := io.ReadFull(c, said); err != nil || string(said) != "hello" || c.(*preface.Conn).UID() != 2001 {
		t.Errorf("%d says %q, %v", c.(*preface.Conn).UID(), said, err)
	}
}

// Who has not the key is closed without a word, who says nothing or half of it too,
// and none of them holds up who has it.
func TestStrangers(t *testing.T) {
	key := preface.NewKey()
	l, dial := listen(t, key)
	good := preface.Preface{Key: key, UID: 2001}.Bytes()
	closed := func(strangers ...net.Conn) {
		t.Helper()
		for i, s := range strangers {
			if b, err := io.ReadAll(s); len(b) > 0 || errors.Is(err, net.ErrClosed) || isTimeout(err) {
				t.Errorf("stranger %d is told %q, %v", i, b, err)
			}
		}
	}
	dial(nil)
	dial(good[:len(good)-1])
	strangers := []net.Conn{
		dial(preface.Preface{Key: preface.NewKey(), UID: 2001}.Bytes()),
		dial([]byte("GET /api/secrets/TOKEN HTTP/1.1\r\nHost: localhost\r\n\r\n")),
	}
	dial(good)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	closed(strangers...)
	_, hurried := listenFor(t, key, brief)
	silent, _ := hurried(nil)
	half, _ := hurried(good[:len(good)-1])
	closed(silent, half)
}

func isTimeout(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return ok && slow.Timeout()
}

// A thousand that say nothing are not held, and the next is served when they are gone.
func TestManyStrangers(t *testing.T) {
	key := preface.NewKey()
	l, dial := listen(t, key)
	before := runtime.NumGoroutine()
	var silent []net.Conn
	for range 1000 {
		silent = append(silent, dial(nil))
	}
	if n := runtime.NumGoroutine() - before; n > 100 {
		t.Errorf("%d goroutines wait for strangers", n)
	}
	for _, c := range silent {
		c.Close()
	}
	dial(preface.Preface{Key: key}.Bytes())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// Whatever is under way, Close ends it, and Accept says so.
func TestListenerCloses(t *testing.T) {
	key := preface.NewKey()
	l, dial := listen(t, key)
	waiting, ready := dial(nil), dial(preface.Preface{Key: key}.Bytes())
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
		t.Error("a connection without a preface outlived the listener", n, err)
	}
	_ = ready.Close()
	if _, err := net.Dial("unix", l.Addr().String()); err == nil {
		t.Error("the inner listener is open")
	}
	if err := l.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
