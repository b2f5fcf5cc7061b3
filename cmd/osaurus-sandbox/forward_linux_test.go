package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/freeport"
	"osaurus-sandbox/internal/timetest"
)

// forwarding is a running forward.
type forwarding struct {
	t       *testing.T
	address string // the first that it opened
	errors  heard
	stop    context.CancelCauseFunc
	code    chan int
}

// heard collects the output of a running program.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// startForward runs forward --json until it has opened a port.
func startForward(t *testing.T, args ...string) *forwarding {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	// A signal ends contexts one by one. Many of them reveal code that depends on their order.
	for range 10_000 {
		_, forget := context.WithCancel(ctx)
		t.Cleanup(forget)
	}
	f := &forwarding{t: t, stop: cancel, code: make(chan int, 1)}
	out, to := io.Pipe()
	go func() {
		f.code <- run(ctx, console{strings.NewReader(""), to, &f.errors}, append([]string{"forward", "--json"}, args...))
		_ = to.Close()
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("nothing is opened: %s", f.errors.String())
	}
	go func() {
		for lines.Scan() {
		}
	}()
	var opened struct{ Address, Agent string }
	if err := json.Unmarshal(lines.Bytes(), &opened); err != nil || opened.Agent != args[0] {
		t.Errorf("%q, %v", lines.Text(), err)
	}
	f.address = opened.Address
	return f
}

// end presses Ctrl-C.
func (f *forwarding) end() {
	f.t.Helper()
	f.stop(interrupted{syscall.SIGINT})
	if code := <-f.code; code != 0 || strings.Contains(f.errors.String(), "signal") {
		f.t.Errorf("it ends with %d: %s", code, f.errors.String())
	}
	if conn, err := net.Dial("tcp", f.address); err == nil {
		conn.Close()
		f.t.Error("its port is open when it has ended")
	}
}

// get fetches a page over a new connection.
func get(address, path string) ([]byte, error) {
	client := http.Client{Timeout: seenWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// portOf returns an address's port.
func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestForward forwards with this host as the guest.
func TestForward(t *testing.T) {
	hostHome(t)
	large := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(large)
			return
		}
		fmt.Fprintf(w, "this is %s", r.URL.Path)
	}))
	defer web.Close()
	port := portOf(t, web.Listener.Addr().String())

	f := startForward(t, "alice", "0:"+port)
	t.Run("N19 only this computer reaches it", func(t *testing.T) {
		at, err := netip.ParseAddrPort(f.address)
		if err != nil || !at.Addr().IsLoopback() {
			t.Fatalf("it listens on %s, %v", f.address, err)
		}
		others, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range others {
			ip := a.(*net.IPNet).IP
			if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
				continue
			}
			if conn, err := net.Dial("tcp", net.JoinHostPort(ip.String(), portOf(t, f.address))); err == nil {
				conn.Close()
				t.Errorf("other computers reach it, at %v", ip)
			}
		}
	})
	if text, err := get(f.address, "/page"); err != nil || string(text) != "this is /page" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := get(f.address, "/large"); err != nil || sha256.Sum256(text) != sha256.Sum256(large) {
		t.Errorf("%d bytes of %d, %v", len(text), len(large), err)
	}
	ok(t, "restart")
	if text, err := get(f.address, "/again"); err != nil || string(text) != "this is /again" {
		t.Errorf("after a restart: %q, %v", text, err)
	}
	ok(t, "down")
	if text, err := get(f.address, "/down"); err == nil {
		t.Errorf("without a guest: %q", text)
	}
	shows(t, `"stopped"`, "status", "--json")
	ok(t, "up")
	if text, err := get(f.address, "/up"); err != nil || string(text) != "this is /up" {
		t.Errorf("in another guest: %q, %v", text, err)
	}

	taken := portOf(t, f.address)
	fails(t, fault.ExitRejected, "osaurus-sandbox forward alice ", "forward", "alice", taken+":"+port)
	f.end()
	fails(t, fault.ExitNotFound, "advice: ", "forward", "nobody", "0:"+port)
	for _, wrong := range []string{"0", "x", "80:0", ":80", "80:", "0.0.0.0:80"} {
		fails(t, fault.ExitInvalidArgs, "advice: ", "forward", "alice", wrong)
	}
}

// Until a server listens, connections fail and some of the errors are shown.
func TestForwardBeforeAnybodyListens(t *testing.T) {
	hostHome(t)
	address := freeport.Address(t)
	f := startForward(t, "alice", "0:"+portOf(t, address))
	defer f.end()
	began := time.Now()
	const tries = 20
	for range tries {
		if text, err := get(f.address, "/"); err == nil {
			t.Errorf("somebody says %q", text)
		}
	}
	timetest.Eventually(t, "that is said", func() bool { return strings.Contains(f.errors.String(), "nothing listens on it\n") })
	said := strings.Count(f.errors.String(), "nothing listens on it\n")
	if most := int(time.Since(began)/complainEvery) + 1; said == 0 || said > most {
		t.Errorf("said %d times: %s", said, f.errors.String())
	}
}

// Connections beyond the limit wait, and leave the agent room for commands.
func TestForwardIsBounded(t *testing.T) {
	hostHome(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var now, most atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			go func() {
				defer conn.Close()
				defer now.Add(-1)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	f := startForward(t, "alice", "0:"+portOf(t, l.Addr().String()))
	defer f.end()
	echo := func(conn net.Conn) error {
		_ = conn.SetDeadline(time.Now().Add(seenWithin))
		buf := make([]byte, 1)
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, buf)
		return err
	}
	var all []net.Conn
	for i := range maxForwarded + 5 {
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all = append(all, conn)
		if i < maxForwarded {
			if err := echo(conn); err != nil {
				t.Fatalf("connection %d: %v, %s", i, err, f.errors.String())
			}
		}
	}
	prints(t, "on\n", "exec", "alice", "--", "echo", "on")
	for i, conn := range all[maxForwarded:] {
		all[i].Close()
		if err := echo(conn); err != nil {
			t.Errorf("one that waited: %v", err)
		}
	}
	if n := most.Load(); n != maxForwarded {
		t.Errorf("%d at once", n)
	}
}

// tryForward reaches a loopback server of an agent without a network.
func tryForward(t *testing.T, home config.Home) {
	does(t, "bob", "", "head -c 3000000 /dev/urandom > big")
	f := startForward(t, "bob", "0:8080")
	id := strings.TrimSpace(ok(t, "job", "start", "bob", "--", "python3", "-m", "http.server", "--bind", "127.0.0.1", "8080"))
	timetest.Eventually(t, "the server answers", func() bool { text, _ := get(f.address, "/mine"); return string(text) == "bob\n" })
	want, err := os.ReadFile(filepath.Join(home.AgentHome("bob"), "big"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := get(f.address, "/big"); err != nil || !bytes.Equal(text, want) {
		t.Errorf("%d bytes of %d, %v", len(text), len(want), err)
	}
	f.end()
	ok(t, "job", "kill", "--kill", "bob", id)
	fails(t, 137, "", "job", "wait", "bob", id)
}
