package intercept

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/websocket"

	"osaurus-sandbox/network/policy"
)

// S03: what the server sends back of a value does not reach the room.
func TestS03EchoedValue(t *testing.T) {
	half := len(value) / 2
	echo := func(w http.ResponseWriter, r *http.Request) {
		h, got := w.Header(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		flush := http.NewResponseController(w).Flush
		if got != value || r.Header.Get("Range") != "" || r.Header.Get("Accept-Encoding") != "gzip" {
			http.Error(w, fmt.Sprint("unexpected head ", r.Header), 500)
			return
		}
		switch r.URL.Path {
		case "/body":
			h.Set("Content-Length", fmt.Sprint(len(got)+4))
			io.WriteString(w, "a "+got+" z")
		case "/split":
			io.WriteString(w, "a "+got[:half])
			flush()
			io.WriteString(w, got[half:]+" z")
		case "/gzip":
			h.Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, "a "+got+" z")
			z.Close()
		case "/br":
			h.Set("Content-Encoding", "br")
			io.WriteString(w, got)
		case "/header":
			h["X-Echo"] = []string{got, "second " + got}
			io.WriteString(w, "a z")
		case "/redirect":
			http.Redirect(w, r, "https://evil.org/?t="+got, http.StatusFound)
		case "/early":
			h.Set("Link", "<"+got+">")
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "a z")
		case "/trailer":
			h.Set("Trailer", "X-Announced")
			io.WriteString(w, "a z")
			h.Set("X-Announced", got)
			h.Set(http.TrailerPrefix+"X-Other", got)
		}
	}
	for _, major := range []int{1, 2} {
		l := newLab(t, true, echo)
		l.bind(Credential{})
		c := l.client(major)
		for _, path := range []string{"/body", "/split", "/gzip", "/br", "/header", "/redirect", "/early", "/trailer"} {
			res, page := l.do(c, "GET", path, "", func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+placeholder)
				r.Header.Set("Accept-Encoding", "gzip")
				r.Header.Set("Range", "bytes=0-3")
			})
			all := fmt.Sprint(res.Header, res.Trailer, page)
			if strings.Contains(all, value) || strings.Contains(all, value[half:]) {
				t.Errorf("%s: the value came back: %s", path, all)
			}
			want := "[REDACTED:GITHUB_TOKEN]"
			switch path {
			case "/br":
				if res.StatusCode != 502 || !strings.Contains(page, "compressed its answer (br)") {
					t.Errorf("%d %s", res.StatusCode, page)
				}
				want = ""
			case "/body", "/split", "/gzip":
				if page != "a "+want+" z" || res.Header.Get("Content-Encoding") != "" {
					t.Errorf("%s: %q %v", path, page, res.Header)
				}
			case "/early": // net/http merges nothing of it into the answer
				want = ""
			case "/trailer":
				if res.Trailer.Get("X-Announced") != want || res.Trailer.Get("X-Other") != want {
					t.Errorf("%s: %v", path, res.Trailer)
				}
			}
			if !strings.Contains(all, want) {
				t.Errorf("%s: %s", path, all)
			}
		}
	}
}

// Early answers are searched as well: net/http's client does not show them, so this reads bytes.
func TestS03EarlyHints(t *testing.T) {
	l := newLab(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "<"+r.Header.Get("X-Api-Key")+">")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "done")
	})
	l.bind(Credential{Key: "X-Api-Key"})
	l.options.Cleartext = true
	conn := l.connect()
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nConnection: close\r\n\r\n", host, placeholder)
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 103 Early Hints\r\nLink: <[REDACTED:GITHUB_TOKEN]>\r\n") || strings.Contains(string(all), value) {
		t.Errorf("%v %s", err, all)
	}
}

// Each piece of a stream arrives before the next one is sent.
func TestStreamsAtOnce(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		next := make(chan bool)
		l := newLab(t, secure, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			http.NewResponseController(w).Flush()
			for i := 0; <-next; i++ {
				fmt.Fprintf(w, "data: %d\n\n", i)
				http.NewResponseController(w).Flush()
			}
		})
		l.bind(Credential{})
		r, _ := http.NewRequestWithContext(t.Context(), "GET", map[bool]string{true: "https://", false: "http://"}[secure]+host+"/", nil)
		res, err := l.client(major).Do(r) // the head comes without a body
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		for i := range 3 {
			next <- true
			line, err := lines.ReadString('\n')
			if err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
			lines.ReadString('\n')
		}
		close(next)
		if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
			t.Errorf("%q %v", rest, err)
		}
	})
}

// A call in both directions with trailers, as gRPC makes it.
func TestCallsLikeGRPC(t *testing.T) {
	for _, secure := range []bool{false, true} {
		l := newLab(t, secure, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			control := http.NewResponseController(w)
			control.EnableFullDuplex()
			control.Flush()
			lines := bufio.NewReader(r.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					break
				}
				io.WriteString(w, "re: "+line)
				control.Flush()
			}
			w.Header().Set("Grpc-Status", "0")
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", r.Header.Get("Te"))
		})
		from, to := io.Pipe()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", map[bool]string{true: "https://", false: "http://"}[secure]+host+"/pkg.Service/Call", from)
		r.Header.Set("Te", "trailers")
		r.Header.Set("Content-Type", "application/grpc")
		res, err := l.client(2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(res.Body)
		for i := range 3 {
			fmt.Fprintf(to, "message %d\n", i)
			if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("re: message %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
		}
		to.Close()
		if _, err := io.ReadAll(lines); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("Grpc-Message") != "trailers" || l.arrived()[0].Proto != "HTTP/2.0" {
			t.Errorf("trailers %v, protocol %s", res.Trailer, l.arrived()[0].Proto)
		}
	}
}

func TestRefusesCallsOfGRPC(t *testing.T) {
	l := newLab(t, true, nil)
	l.options.Authorize = func(context.Context, string, string) policy.Decision {
		return policy.Decision{Action: policy.Deny, Reason: "100% closed"}
	}
	res, _ := l.do(l.client(2), "POST", "/pkg.Service/Call", "x", func(r *http.Request) { r.Header.Set("Content-Type", "application/grpc") })
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "7" || !strings.Contains(res.Header.Get("Grpc-Message"), "100%25%20closed") {
		t.Errorf("%v", res)
	}
}

// The client's body is not read before the server, or the policy, has agreed to it.
func TestContinue(t *testing.T) {
	l := newLab(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		text, _ := io.ReadAll(r.Body)
		w.Write(text)
	})
	l.options.Authorize = func(_ context.Context, method, path string) policy.Decision {
		if path == "/closed" {
			return policy.Decision{Action: policy.Deny, Reason: "closed"}
		}
		return policy.Decision{Action: policy.Allow}
	}
	ask := func(path string) (net.Conn, *bufio.Reader, *http.Response) {
		conn := l.connect()
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", path, host)
		from := bufio.NewReader(conn)
		res, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return conn, from, res
	}
	for path, status := range map[string]int{"/no": 417, "/closed": 403} {
		for {
			start := time.Now()
			if _, _, res := ask(path); res.StatusCode == status {
				break
			} else if res.StatusCode != 100 || time.Since(start) < continueTimeout {
				t.Fatalf("%s: %v", path, res)
			} // else the server had no processor for all that time
		}
	}

	conn, from, res := ask("/ok")
	if res.StatusCode != 100 {
		t.Fatalf("%v", res)
	}
	io.WriteString(conn, "data")
	// There is one 100 alone.
	res, err := http.ReadResponse(from, nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v %v", res, err)
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "data" {
		t.Errorf("%q %v", text, err)
	}
}

// A server may answer before it has the whole body, and go on reading.
func TestAnswersWhileTheBodyIsSent(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		l := newLab(t, secure, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			control.EnableFullDuplex()
			w.WriteHeader(200)
			control.Flush()
			io.Copy(w, r.Body)
		})
		from, to := io.Pipe()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", map[bool]string{true: "https://", false: "http://"}[secure]+host+"/", from)
		res, err := l.client(major).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.WriteString(to, "late")
		to.Close()
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "late" {
			t.Errorf("%q %v", text, err)
		}
	})
}

func TestWebSocket(t *testing.T) {
	for _, secure := range []bool{false, true} {
		talk := websocket.Handler(func(ws *websocket.Conn) {
			var text string
			for websocket.Message.Receive(ws, &text) == nil {
				websocket.Message.Send(ws, "re: "+text)
			}
		})
		l := newLab(t, secure, func(w http.ResponseWriter, r *http.Request) {
			if secure && r.Header.Get("Authorization") != "Bearer "+value || r.Header.Get("Sec-Websocket-Extensions") != "" {
				http.Error(w, "unexpected head", 500)
				return
			}
			talk.ServeHTTP(w, r)
		})
		l.bind(Credential{})
		conn := l.connect()
		scheme := map[bool]string{true: "wss://", false: "ws://"}[secure]
		config, err := websocket.NewConfig(scheme+host+"/chat", "https://"+host)
		if err != nil {
			t.Fatal(err)
		}
		config.Header.Set("Sec-WebSocket-Extensions", "permessage-deflate")
		if secure {
			config.Header.Set("Authorization", "Bearer "+placeholder)
			conn = tlsClient(t, conn, l)
		}
		conn.SetDeadline(time.Now().Add(patience))
		ws, err := websocket.NewClient(config, conn)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", placeholder, strings.Repeat("long ", 20000)} {
			if err := websocket.Message.Send(ws, text); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := websocket.Message.Receive(ws, &got); err != nil || got != "re: "+text {
				t.Fatalf("%.40q %v", got, err)
			}
		}
		ws.Close()
	}
}

// A connection is closed when its context ends, whatever is open on it.
func TestEndsWithItsContext(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		began := make(chan bool)
		l := newLab(t, secure, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			http.NewResponseController(w).Flush()
			close(began)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, far, l.options) }()
		c := l.client(major)
		c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return near, nil }
		r, _ := http.NewRequestWithContext(t.Context(), "GET", map[bool]string{true: "https://", false: "http://"}[secure]+host+"/", nil)
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("the answer ended as if it were whole")
		}
		res.Body.Close()
	})
}

func TestSlowHeadEnds(t *testing.T) {
	for _, first := range []string{"", "GET / HTTP/1.1\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			began := time.Now()
			o := Options{
				Name: host, Port: 80, Log: quiet(),
				Authorize: func(context.Context, string, string) policy.Decision { return policy.Decision{Action: policy.Allow} },
				Dial:      func(ctx context.Context) (net.Conn, error) { return nil, net.ErrClosed },
			}
			done := make(chan error, 1)
			go func() { done <- Serve(t.Context(), far, o) }()
			io.WriteString(near, first)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > headTimeout+time.Minute || took < headTimeout {
				t.Errorf("%q: ended after %v", first, took)
			}
		})
	}
}

func TestLargeBodiesBothWays(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		l := newLab(t, secure, func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			w.Write(text)
		})
		big := strings.Repeat(string(bytes.Repeat([]byte("0123456789abcdef"), 64)), 4<<10) // 4 MiB
		_, page := l.do(l.client(major), "PUT", "/", big, nil)
		if page != big {
			t.Errorf("%d bytes came back, want %d", len(page), len(big))
		}
	})
}

// BenchmarkDownload shows what opening a connection costs.
func BenchmarkDownload(b *testing.B) {
	const size = 16 << 20
	piece := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	for _, kind := range []string{"direct", "opened"} {
		b.Run(kind, func(b *testing.B) {
			l := newLab(b, true, func(w http.ResponseWriter, r *http.Request) {
				for range size / len(piece) {
					w.Write(piece)
				}
			})
			c := l.client(1)
			if kind == "direct" {
				t := c.Transport.(*http.Transport)
				t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.options.Dial(ctx) }
				t.TLSClientConfig.RootCAs = l.options.Roots
			}
			b.SetBytes(size)
			for b.Loop() {
				l.do(c, "GET", "/", "", nil)
			}
		})
	}
}

// A value in a WebSocket's message does not arrive. Its frame is broken then.
func TestS03WebSocketEchoesValue(t *testing.T) {
	l := newLab(t, true, websocket.Handler(func(ws *websocket.Conn) {
		websocket.Message.Send(ws, "before")
		websocket.Message.Send(ws, ws.Request().Header.Get("Authorization"))
	}).ServeHTTP)
	l.bind(Credential{})
	conn := tlsClient(t, l.connect(), l)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nOrigin: https://%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer %s\r\n\r\n", host, host, placeholder)
	all, _ := io.ReadAll(conn)
	if text := string(all); !strings.HasPrefix(text, "HTTP/1.1 101") || !strings.Contains(text, "before") || !strings.Contains(text, "Bearer [REDACTED") || strings.Contains(text, value) {
		t.Errorf("the client got %q", text)
	}
}

// More requests than a connection may have wait for their turn, or for another connection. There are few of
// those: Go's server gives a client two seconds for its settings, which hundreds of handshakes may take.
func TestConcurrentRequests(t *testing.T) {
	var open, most, connections atomic.Int64
	l := newLab(t, true, func(w http.ResponseWriter, r *http.Request) {
		if n := open.Add(1); n > most.Load() {
			most.Store(n)
		}
		runtime.Gosched()
		open.Add(-1)
	})
	c := l.client(2)
	c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		connections.Add(1)
		return l.connect(), nil
	}
	request := func() {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+host+"/", nil)
		res, err := c.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		res.Body.Close()
	}
	request() // which makes a connection for the others
	const programs, each = maxStreams + 10, 3
	var all sync.WaitGroup
	for range programs {
		all.Go(func() {
			for range each {
				request()
			}
		})
	}
	all.Wait()
	if most.Load() > maxStreams*connections.Load() || len(l.arrived()) != programs*each+1 {
		t.Errorf("%d at once over %d connections, %d in all", most.Load(), connections.Load(), len(l.arrived()))
	}
}

// The status line of an upgrade holds no value either.
func TestS03UpgradeStatusEchoesValue(t *testing.T) {
	l := newLab(t, true, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 %s\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n", r.Header.Get("Authorization"))
	})
	l.bind(Credential{})
	conn := tlsClient(t, l.connect(), l)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: chat\r\nAuthorization: Bearer %s\r\n\r\n", host, placeholder)
	all, _ := io.ReadAll(conn)
	if text := string(all); !strings.HasPrefix(text, "HTTP/1.1 101") || strings.Contains(text, value) {
		t.Errorf("the client got %q", text)
	}
}
