//go:build linux

package relay_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/protocol"
)

// TestCarries sends data in both directions over many connections.
func TestCarries(t *testing.T) {
	r := newRig(t, echo)
	path := r.room("socket", uint32(os.Getuid()))
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o666 {
		t.Errorf("%v %v", st, err)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			in := bufio.NewReader(c)
			if line, err := in.ReadString('\n'); line != fmt.Sprintln(os.Getuid()) {
				t.Errorf("%q %v", line, err)
			}
			sent := make([]byte, 1<<20)
			_, _ = rand.Read(sent)
			go func() { _, _ = c.Write(sent) }()
			back := make([]byte, len(sent))
			if _, err := io.ReadFull(in, back); err != nil || !bytes.Equal(sent, back) {
				t.Errorf("what came back is not what was sent: %v", err)
			}
		})
	}
	all.Wait()
}

// TestWho checks that a room's socket accepts its user and root, as that user, and the guest's own
// socket everyone under their own user id.
func TestWho(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be others")
	}
	r := newRig(t, echo)
	for _, dir := range []string{r.dir, filepath.Dir(r.dir)} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	const alice, bob = 20001, 20002
	hers := r.room("alice", alice)
	for _, c := range []struct {
		as   int
		want string
	}{{alice, "20001\n"}, {0, "20001\n"}, {bob, ""}} {
		conn := dialAs(t, hers, c.as)
		if got, _ := asked(conn); got != c.want {
			t.Errorf("%d is %q, want %q", c.as, got, c.want)
		}
	}
}

// TestIdleConnectionsHoldUpNobodyElse opens more connections than a room may have. Further ones of that
// room wait, and another room is not affected.
func TestIdleConnectionsHoldUpNobodyElse(t *testing.T) {
	r := newRig(t, echo)
	me := uint32(os.Getuid())
	bobs, alices := r.room("bob", me), r.room("alice", me)
	const many = 1000
	held := make([]net.Conn, 0, many)
	for range many {
		held = append(held, dial(t, bobs))
	}
	if _, err := asked(held[0]); err != nil {
		t.Error(err)
	}
	for range 200 {
		c := dial(t, alices)
		if _, err := asked(c); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	const bound = 3 * 96                                                  // this process has both ends of the host's connections
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // alice's connections take a moment to close
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d descriptors for %d connections of one room: %v", len(files)-many, many, err)
		}
		if len(files)-many <= bound+100 {
			break
		}
	}
	_ = held[many-1].SetDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := asked(held[many-1]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the last of %d is answered %q, %v", many, got, err)
	}
	for _, c := range held[:many-1] {
		c.Close()
	}
	_ = held[many-1].SetDeadline(time.Now().Add(patience))
	if _, err := asked(held[many-1]); err != nil {
		t.Errorf("the last of %d is not answered: %v", many, err)
	}
}

// TestEnds checks that the end of one side ends the other, after all data.
func TestEnds(t *testing.T) {
	left := make(chan error, 1)
	r := newRig(t, func(_ uint32, c net.Conn) {
		var b [1]byte
		_, _ = c.Read(b[:])
		switch b[0] {
		case 'l': // wait for the program to leave
			_, err := c.Read(b[:])
			left <- err
		case 'a': // answer and close
			_, _ = c.Write(bytes.Repeat([]byte("answer"), 100_000))
		case 'r': // refuse while it still sends
			fmt.Fprint(c, "refused")
		}
	})
	path := r.room("socket", uint32(os.Getuid()))

	c := dial(t, path)
	fmt.Fprint(c, "l")
	c.Close()
	select {
	case err := <-left:
		if !errors.Is(err, io.EOF) {
			t.Errorf("the host reads %v", err)
		}
	case <-time.After(patience):
		t.Error("the host does not learn that the program has left")
	}

	c = dial(t, path)
	fmt.Fprint(c, "a")
	if all, err := io.ReadAll(c); err != nil || len(all) != 600_000 {
		t.Errorf("%d bytes of the answer, %v", len(all), err)
	}

	c = dial(t, path)
	fmt.Fprint(c, "r")
	go func() { _, _ = io.Copy(c, neverending{}) }()
	said := make([]byte, len("refused"))
	if _, err := io.ReadFull(c, said); err != nil || string(said) != "refused" {
		t.Errorf("a program that still sends reads %q, %v", said, err)
	}
	if _, err := c.Read(said); err == nil {
		t.Error("the connection goes on")
	}
}

// TestHalfClose ends a program's half of the connection after its request. The host does not see that, and the
// program reads the answer.
func TestHalfClose(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	read := make(chan error, 1)
	r := newRig(t, func(_ uint32, c net.Conn) {
		b := make([]byte, len("request"))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Error(err)
		}
		close(asked)
		<-answer
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := c.Read(b)
		read <- err
		fmt.Fprint(c, "answer")
	})
	c := dial(t, r.room("socket", uint32(os.Getuid())))
	fmt.Fprint(c, "request")
	<-asked
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if all, err := io.ReadAll(c); err != nil || string(all) != "answer" {
		t.Errorf("the program reads %q, %v", all, err)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the host reads %v", err)
	}
}

type neverending struct{}

func (neverending) Read(b []byte) (int, error) { return len(b), nil }

// TestCopiesHoldNothingOpen checks that connections end although a starting command has copies of all
// descriptors.
func TestCopiesHoldNothingOpen(t *testing.T) {
	r := newRig(t, func(_ uint32, c net.Conn) {
		fmt.Fprintln(c, "hello")
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*protocol.BridgeConn).Conn.(*net.UnixConn).CloseWrite()
	})
	path := filepath.Join(r.dir, "socket")
	s, err := r.Room(path, uint32(os.Getuid()), func(int) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []struct {
		name string
		end  func(c net.Conn) error
	}{
		{"the host", func(c net.Conn) error { _, err := fmt.Fprint(c, "x"); return err }},
		{"the socket", func(net.Conn) error { return s.Close() }},
	} {
		c := dial(t, path)
		if line, err := asked(c); line != "hello\n" {
			t.Fatal(line, err)
		}
		release := copyAll(t) // the host's end too, which is of this process here
		if err := by.end(c); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
			t.Errorf("when %s has ended: %q %v", by.name, rest, err)
		}
		release()
	}
}

// copyAll copies all descriptors of this process.
func copyAll(t *testing.T) (release func()) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var copies []int
	for _, e := range list {
		n, _ := strconv.Atoi(e.Name())
		if fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3); err == nil {
			copies = append(copies, fd)
		}
	}
	return func() {
		for _, fd := range copies {
			_ = unix.Close(fd)
		}
	}
}

// TestClose checks that closing a socket ends its connections and frees its name.
func TestClose(t *testing.T) {
	r := newRig(t, echo)
	path := filepath.Join(r.dir, "socket")
	for range 3 {
		s, err := r.Room(path, uint32(os.Getuid()), func(int) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		quiet, waits := dial(t, path), make([]net.Conn, 0, 200)
		for range 200 { // more than it takes at once
			waits = append(waits, dial(t, path))
		}
		if _, err := asked(quiet); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range append(waits, quiet) {
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("a connection outlived its socket")
			}
			c.Close()
		}
	}
}
