package main

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// Both directions arrive completely, and the end of the input is passed on before the answer.
func TestConnect(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil && host == "::1" {
			t.Logf("no IPv6 on this host: %v", err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			text, err := io.ReadAll(conn)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(conn, strings.ToUpper(string(text)))
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		in, feed := pipe(t)
		out, to := pipe(t)
		text := strings.Repeat("words, ", 1<<16)
		go func() {
			_, _ = io.WriteString(feed, text)
			_ = feed.Close()
		}()
		code := make(chan int, 1)
		go func() {
			code <- run(context.Background(), system{in, to, os.Stderr, os.Getenv}, []string{wire.Connect, port})
			_ = to.Close()
		}()
		answer, err := io.ReadAll(out)
		if c := <-code; c != 0 || err != nil || string(answer) != strings.ToUpper(text) {
			t.Errorf("%s: %d, %d bytes, %v", host, c, len(answer), err)
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// A port on which nothing listens has an exit code of its own.
func TestConnectFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	r := newRoom(t)
	for _, tc := range []struct {
		words []string
		code  int
		says  string
	}{
		{[]string{port}, fault.ExitNotFound, "connect to port " + port + ": "},
		{[]string{}, fault.ExitInvalidArgs, "osaurus-sandbox forward"},
		{[]string{"80", "81"}, fault.ExitInvalidArgs, "it takes PORT"},
		{[]string{"0"}, fault.ExitInvalidArgs, "1 to 65535"},
		{[]string{"--help"}, fault.ExitInvalidArgs, "1 to 65535"},
	} {
		code, out, errors := r.do(t, "", append([]string{wire.Connect}, tc.words...)...)
		if code != tc.code || out != "" || !strings.Contains(errors, tc.says) {
			t.Errorf("%q: %d, %q, %q", tc.words, code, out, errors)
		}
	}
}
