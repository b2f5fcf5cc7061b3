//go:build linux

package service_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc/faultpb"
)

// rawLine is a line without the manners of guest.Client.
type rawLine struct {
	t    *testing.T
	conn net.Conn
	from *bufio.Reader
}

// ask makes a line.
func ask(t *testing.T, dial guest.Dialer, key protocol.Key) *rawLine {
	t.Helper()
	conn, err := dial(t.Context(), guest.EntryPort)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(protocol.DataHeader{Key: key}.Bytes()); err != nil {
		t.Fatal(err)
	}
	return &rawLine{t, conn, bufio.NewReader(conn)}
}

// start sends commands at once.
func (l *rawLine) start(starts ...*guestpb.Start) {
	l.t.Helper()
	var b []byte
	for _, s := range starts {
		var err error
		if b, err = protocol.AppendFrame(b, protocol.FrameMessage, &guestpb.ExecRequest{What: &guestpb.ExecRequest_Start{Start: s}}); err != nil {
			l.t.Fatal(err)
		}
	}
	if _, err := l.conn.Write(b); err != nil {
		l.t.Fatal(err)
	}
}

// end reads to the end of a command, and returns its output and how it ended.
func (l *rawLine) end() string {
	l.t.Helper()
	var said strings.Builder
	for {
		kind, b, err := protocol.ReadFrame(l.from, nil)
		if err != nil {
			l.t.Fatal(err)
		}
		if kind == protocol.FrameFault {
			f := new(faultpb.Fault)
			if err := proto.Unmarshal(b, f); err != nil {
				l.t.Fatal(err)
			}
			return f.Kind
		}
		m := new(guestpb.ExecResponse)
		if err := proto.Unmarshal(b, m); err != nil {
			l.t.Fatal(err)
		}
		said.Write(m.GetStdout())
		if e := m.GetExit(); e != nil {
			return fmt.Sprint(said.String(), e.Code)
		}
	}
}

func shell(script string) *guestpb.Start {
	return &guestpb.Start{Args: protocol.Bytes([]string{"sh", "-c", script}), Env: protocol.Bytes(protocol.RootEnvironment()), Stdout: true}
}

// greeted is a service that was greeted with a key of zeros.
func greeted(t *testing.T) guest.Dialer {
	t.Helper()
	dial := serve(t, &host{})
	hello := &guestpb.HelloRequest{VersionMin: protocol.VersionMin, VersionMax: protocol.VersionMax, Key: make([]byte, protocol.KeySize), Boot: &guestpb.Boot{}}
	if _, err := rawClient(t, dial).Hello(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	return dial
}

// A line demands the key, and carries one command after the other, whatever became of the
// one before.
func TestLine(t *testing.T) {
	checkLeaks(t)
	dial := greeted(t)
	if answer := ask(t, dial, protocol.Key{1}).end(); answer != string(fault.Rejected) {
		t.Errorf("with another key: %q", answer)
	}
	l := ask(t, dial, protocol.Key{})
	input, terminal := shell("true"), shell("true")
	input.Stdin, terminal.Pty = true, &guestpb.Pty{Rows: 1, Cols: 1}
	l.start(shell("echo one"), shell("exit 2"), input, terminal, &guestpb.Start{}, nil, shell("echo three; exit 3"))
	for i, want := range []string{"one\n0", "2", "invalid_args", "invalid_args", "invalid_args", "invalid_args", "three\n3"} {
		if got := l.end(); got != want {
			t.Errorf("answer %d is %q, want %q", i, got, want)
		}
	}
}

// Who speaks another language on a line loses it, and so does who goes away, with the
// command that runs.
func TestLineBreaks(t *testing.T) {
	checkLeaks(t)
	dial := greeted(t)
	for name, say := range map[string]string{
		"long frame": "\x00\xff\xff\xff\xff", "other kind": "\x07\x00\x00\x00\x00", "fault": "\x01\x00\x00\x00\x00",
		"no message": "\x00\x00\x00\x00\x01\xff", "HTTP": "GET / HTTP/1.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := ask(t, dial, protocol.Key{})
			l.start(shell("sleep 1000"))
			_, b, err := protocol.ReadFrame(l.from, nil)
			m := new(guestpb.ExecResponse)
			if err := errors.Join(err, proto.Unmarshal(b, m)); err != nil || m.GetStarted() == nil {
				t.Fatalf("%v %v", m, err)
			}
			if _, err := io.WriteString(l.conn, say); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, l.from); err != nil {
				t.Error(err)
			}
			for begun := time.Now(); unix.Kill(int(m.GetStarted().Pid), 0) == nil; time.Sleep(5 * time.Millisecond) {
				if time.Since(begun) > patience {
					t.Fatal("the command outlived its line")
				}
			}
		})
	}
}

// calls counts and keeps the connections of a client.
type calls struct {
	dial guest.Dialer
	mu   sync.Mutex
	made []net.Conn
}

func (c *calls) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	conn, err := c.dial(ctx, port)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, conn)
	return conn, err
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.made)
}

// Commands that follow each other share a line. A command that was not found leaves it, one that
// was ended by its context does not, and a line that broke in between is replaced.
func TestLinesAreKept(t *testing.T) {
	checkLeaks(t)
	counted := &calls{dial: serve(t, &host{})}
	c := connected(t, counted.Dial)
	run := func() {
		t.Helper()
		if exit, err := c.Run(t.Context(), engine.Command{Args: []string{"true"}}); err != nil || exit.Status() != 0 {
			t.Fatalf("%+v %v", exit, err)
		}
	}
	run()
	first := counted.count()
	for range 5 {
		run()
		if _, err := c.Run(t.Context(), engine.Command{Args: []string{"/no/such/program"}}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("no such program: %v", err)
		}
	}
	if n := counted.count(); n != first {
		t.Errorf("%d connections for eleven commands in a row, %d for the first", n, first)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := c.Exec(ctx, engine.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	run()
	if n := counted.count(); n != first+1 {
		t.Errorf("%d connections after a cancelled command, want %d", n, first+1)
	}
	_ = counted.made[first].Close()
	run()
	if n := counted.count(); n != first+2 {
		t.Errorf("%d connections after a broken line, want %d", n, first+2)
	}
}
