package bridge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
)

// descriptors counts this process's open files.
func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skipf("this system does not tell what is open: %v", err)
	}
	return len(open)
}

// held makes services wait until letGo is called or their caller leaves.
func (s *services) held() (began chan struct{}, left chan error, letGo func()) {
	began, left = make(chan struct{}, 1000), make(chan error, 1000)
	gate := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			left <- ctx.Err()
			return ctx.Err()
		}
	}
	return began, left, sync.OnceFunc(func() { close(gate) })
}

// TestCallerLeaves checks that a request ends when its program leaves, on every route.
func TestCallerLeaves(t *testing.T) {
	w := newWorld(t)
	began, left, letGo := w.services.held()
	defer letGo()
	for _, c := range everyRoute {
		r := c.of(w, alice)
		conn := w.dial(alice.UID)
		text := w.head(r.method, r.path) + "X-Osaurus-Script-Id: s1\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(r.body), r.body)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		<-began
		conn.Close()
		select {
		case err := <-left:
			if err != context.Canceled {
				t.Errorf("%s %s: %v", r.method, r.path, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s %s is still worked on", r.method, r.path)
		}
	}
}

// TestRevokedInTheMiddle checks that revoking a token ends its requests, also those still being
// sent.
func TestRevokedInTheMiddle(t *testing.T) {
	w := newWorld(t)
	began, left, letGo := w.services.held()
	defer letGo()
	for name, revoke := range map[string]func(){
		"revoked":     func() { w.tokens.Revoke(alice.User) },
		"all revoked": w.tokens.RevokeAll,
		"another one": func() { w.tokens.Mint(alice) },
	} {
		w.alice = w.tokens.Mint(alice)
		asked, coming := w.dial(alice.UID), w.dial(alice.UID)
		if _, err := io.WriteString(asked, w.hidden()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(coming, w.head("POST", "/api/log")+"Expect: 100-continue\r\nContent-Length: 15\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-began
		if r, err := http.ReadResponse(bufio.NewReader(coming), nil); err != nil || r.StatusCode != http.StatusContinue {
			t.Fatal(r, err) // it is let in
		}
		revoke()
		select {
		case err := <-left:
			if err != context.Canceled {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it is still worked on", name)
		}
		if _, err := io.WriteString(coming, `{"message":"a"}`); err != nil {
			t.Fatal(err)
		}
		for _, conn := range []net.Conn{asked, coming} {
			if got := read(conn, 1); len(got) != 1 || got[0].status != http.StatusUnauthorized || got[0].header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %v", name, got)
			}
			conn.Close()
		}
		select {
		case <-began:
			t.Errorf("%s: what came later was taken", name)
		default:
		}
	}
}

// TestHalfClosed ends the input before an answer has begun. The request is cancelled, because the
// guest's relay reports a half-close only later.
func TestHalfClosed(t *testing.T) {
	w := newWorld(t)
	_, left, letGo := w.services.held()
	defer letGo()
	conn := w.dial(alice.UID)
	defer conn.Close()
	if _, err := io.WriteString(conn, w.hidden()); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-left
	if got := read(conn, 1); len(got) != 1 || got[0].status != 400 || !strings.Contains(got[0].body, "closed before it came") {
		t.Errorf("%v", got)
	}
}

// TestRequestsAtATime checks that an agent's concurrent requests are bounded without affecting
// others.
func TestRequestsAtATime(t *testing.T) {
	const share = 96
	w := newWorld(t)
	began, _, letGo := w.services.held()
	defer letGo()
	answers := make(chan response, share)
	for range share {
		go func() { answers <- w.ask(w.as(alice, "POST", "/api/log", `{"message":"a"}`)) }()
	}
	for range share {
		<-began
	}
	if got := w.ask(w.as(alice, "POST", "/api/log", `{"message":"a"}`)); got.status != 429 || got.header.Get("Retry-After") != "1" {
		t.Errorf("one more: %v", got)
	}
	go func() { answers <- w.ask(w.as(bob, "POST", "/api/log", `{"message":"a"}`)) }()
	<-began // bob's
	letGo()
	for range share + 1 {
		if got := <-answers; got.status != 200 {
			t.Errorf("%v", got)
		}
	}
	if got := w.ask(w.as(alice, "POST", "/api/log", `{"message":"a"}`)); got.status != 200 {
		t.Errorf("afterwards: %v", got)
	}
}

// TestLargeBodiesAtATime checks that large bodies wait for each other, and small ones do not.
func TestLargeBodiesAtATime(t *testing.T) {
	const share = 4
	w := newWorld(t)
	began, _, letGo := w.services.held()
	defer letGo()
	large := w.as(alice, "POST", "/api/log", `{"message":"`+strings.Repeat("x", 1<<20)+`"}`)
	answers := make(chan response, share+2)
	for range share + 2 {
		go func() { answers <- w.ask(large) }()
	}
	for range share {
		<-began
	}
	go func() { answers <- w.ask(w.as(alice, "POST", "/api/log", `{"message":"small"}`)) }()
	<-began
	select {
	case <-began:
		t.Errorf("more than %d large bodies are worked on", share)
	case <-time.After(100 * time.Millisecond):
	}
	letGo()
	for range share + 3 {
		if got := <-answers; got.status != 200 {
			t.Errorf("%v", got)
		}
	}
}

// TestStream checks that the parts of an answer are sent as they come.
func TestStream(t *testing.T) {
	w := newWorld(t)
	chat := func(text string) *bufio.Scanner {
		conn := w.dial(alice.UID)
		t.Cleanup(func() { conn.Close() })
		body := fmt.Sprintf(`{"stream":true,"messages":[{"role":"user","content":%q}]}`, text)
		go io.WriteString(conn, w.head("POST", "/api/inference/chat")+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if kind := r.Header.Get("Content-Type"); r.StatusCode != 200 || kind != "text/event-stream" {
			t.Fatalf("%s of %s", r.Status, kind)
		}
		return bufio.NewScanner(r.Body)
	}
	all := func(s *bufio.Scanner) (lines []string) {
		for s.Scan() {
			lines = append(lines, s.Text())
		}
		return lines
	}
	for text, want := range map[string]string{
		"hi":    `data: {"content":"hello,"}||data: {"content":" you"}||data: [DONE]|`,
		"break": `data: {"content":"hello,"}||data: {"error":"chat: the model is gone","kind":"unavailable","advice":"Start it."}|`,
	} {
		if got := strings.Join(all(chat(text)), "|"); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	// Before the first part an error is an ordinary answer.
	w.services.fails(io.ErrUnexpectedEOF)
	if got := w.ask(w.as(alice, "POST", "/api/inference/chat", `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`)); got.status != 500 || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got)
	}
}

// TestHalfClosedStream ends the input while an answer is streamed. The rest of the answer still comes.
func TestHalfClosedStream(t *testing.T) {
	gate := make(chan struct{})
	w := newWorld(t, func(o *bridge.Options) { o.Services.Inference = streamer{gate} })
	conn := w.dial(alice.UID)
	defer conn.Close()
	body := `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	if _, err := io.WriteString(conn, w.head("POST", "/api/inference/chat")+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(gate) })
	if text, err := io.ReadAll(r.Body); err != nil || !strings.HasSuffix(string(text), "data: {\"content\":\"second\"}\n\ndata: [DONE]\n\n") {
		t.Errorf("the program reads %q, %v", text, err)
	}
}

// streamer answers in two parts, the second when the gate opens.
type streamer struct{ gate chan struct{} }

func (s streamer) Chat(ctx context.Context, _ bridge.Caller, _ bridge.Chat, tell func(string) error) (string, error) {
	if err := tell("first"); err != nil {
		return "", err
	}
	select {
	case <-s.gate:
		return "", tell("second")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// TestClose checks that closing the server ends its requests.
func TestClose(t *testing.T) {
	w := newWorld(t)
	began, left, letGo := w.services.held()
	defer letGo()
	conn := w.dial(alice.UID)
	defer conn.Close()
	if _, err := io.WriteString(conn, w.hidden()); err != nil {
		t.Fatal(err)
	}
	<-began
	started := time.Now()
	_ = w.server.Close() // fails, because it ends the request
	if err, took := <-left, time.Since(started); err != context.Canceled || took > 30*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}
