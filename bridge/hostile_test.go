package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
)

const tooMuch = 8<<20 + 1

// head returns the beginning of a request of alice's. The test adds the last header and the body.
func (w *world) head(method, path string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nX-Osaurus-Plugin: rss\r\n", method, path, w.alice)
}

// statuses returns the statuses of all answers on a connection.
func (w *world) statuses(text string) string {
	w.t.Helper()
	var list []string
	for _, r := range w.raw(alice.UID, text, 100) {
		list = append(list, fmt.Sprint(r.status))
	}
	return strings.Join(list, " ")
}

// hidden is a whole request that another's body may carry.
func (w *world) hidden() string {
	return w.head("POST", "/api/log") + "Connection: close\r\nContent-Length: 20\r\n\r\n" + `{"message":"hidden"}`
}

// The two ends never disagree where a request ends: who sends it with two
// lengths has none after it answered.
func TestSmuggling(t *testing.T) {
	w := newWorld(t)
	hidden := w.hidden()
	for name, c := range map[string]struct{ text, want string }{
		"content length and chunked": {w.head("POST", "/api/config/k") + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", 5+len(hidden)) +
			"0\r\n\r\n" + hidden, "400"},
		"chunked and content length":  {w.head("POST", "/api/config/k") + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + "d\r\n{\"value\":\"v\"}\r\n0\r\n\r\n" + hidden, "200"},
		"two content lengths":         {w.head("POST", "/api/config/k") + "Content-Length: 0\r\nContent-Length: 13\r\n\r\n" + `{"value":"v"}` + hidden, "400"},
		"a list of lengths":           {w.head("POST", "/api/config/k") + "Content-Length: 0, 13\r\n\r\n" + `{"value":"v"}` + hidden, "400"},
		"a signed length":             {w.head("POST", "/api/config/k") + "Content-Length: +13\r\n\r\n" + `{"value":"v"}` + hidden, "400"},
		"a negative length":           {w.head("POST", "/api/config/k") + "Content-Length: -1\r\n\r\n" + hidden, "400"},
		"a length with a space":       {w.head("POST", "/api/config/k") + "Content-Length : 0\r\n\r\n" + hidden, "400"},
		"chunked with a space":        {w.head("POST", "/api/config/k") + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, "400"},
		"chunked twice":               {w.head("POST", "/api/config/k") + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "501"},
		"another encoding":            {w.head("POST", "/api/config/k") + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, "501"},
		"gzip, chunked":               {w.head("POST", "/api/config/k") + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden, "501"},
		"chunked in HTTP/1.0":         {strings.Replace(w.head("POST", "/api/config/k"), "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "505"},
		"a bad chunk":                 {w.head("POST", "/api/config/k") + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" + hidden, "400"},
		"an endless chunk size":       {w.head("POST", "/api/config/k") + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("f", 17) + "\r\n", "400"},
		"a header with a line feed":   {w.head("POST", "/api/log") + "X: a\nContent-Length: 0\r\n\r\n" + hidden, "400 200"}, // as RFC 9112 allows: one line, one header
		"a header with a CR":          {w.head("POST", "/api/log") + "X: a\rContent-Length: 0\r\n\r\n", "400"},
		"an unknown version":          {strings.Replace(w.head("POST", "/api/log"), "1.1", "2.0", 1) + "\r\n", "505"},
		"HTTP/2 with prior knowledge": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		"an upgrade":                  {w.head("GET", "/api/secrets/KEY") + "Connection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n", "200"},
		"not HTTP at all":             {"hello\r\n\r\n", "400"},
		"TLS":                         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		"after a body that is none":   {w.head("GET", "/api/secrets/KEY") + "Content-Length: 5\r\n\r\nhello" + hidden, "200 200"},
	} {
		if got := w.statuses(c.text); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestOversized sends bodies over the limit, with and without a length. They are refused and the connection is closed.
func TestOversized(t *testing.T) {
	w := newWorld(t)
	for name, token := range map[string]string{"alice": string(w.alice), "nobody": "", "an unknown token": strings.Repeat("A", 43)} {
		head := "POST /api/nothing/at/all HTTP/1.1\r\nHost: localhost\r\n"
		if token != "" {
			head += "Authorization: Bearer " + token + "\r\n"
		}
		chunks := "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("100000\r\n"+strings.Repeat("x", 1<<20)+"\r\n", 9) + "0\r\n\r\n"
		for how, text := range map[string]string{
			"declared": fmt.Sprintf("Content-Length: %d\r\n\r\n", tooMuch),
			"huge":     "Content-Length: 9223372036854775807\r\n\r\n",
			"streamed": chunks,
		} {
			want, says := 413, "larger than 8388608 bytes"
			if how == "streamed" && name != "alice" {
				want, says = 401, "the token is missing" // its body is not read
			}
			got := w.raw(alice.UID, head+text, 2)
			if len(got) != 1 || got[0].status != want || !strings.Contains(got[0].body, says) {
				t.Errorf("%s, %s: %v", how, name, got)
			}
		}
	}
	if got := w.statuses(w.head("POST", "/api/log") + "Expect: 100-continue\r\nContent-Length: 9000000\r\n\r\n"); got != "413" {
		t.Errorf("who asks before sending hears %s", got)
	}
}

// TestLargest sends the largest body, with and without a length.
func TestLargest(t *testing.T) {
	w := newWorld(t)
	value := strings.Repeat("x", 8<<20-len(`{"message":""}`))
	body := `{"message":"` + value + `"}`
	if got := w.ask(w.as(alice, "POST", "/api/log", body)); got.status != 200 || w.services.last() != "agent-alice/rss log info "+value {
		t.Errorf("%d %.100s", got.status, got.body)
	}
	text := w.head("POST", "/api/log") + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	if got := w.statuses(text); got != "200" {
		t.Errorf("in one chunk: %s", got)
	}
	if got := w.ask(w.as(alice, "POST", "/api/log", body+" ")); got.status != 413 {
		t.Errorf("a byte more: %d %.100s", got.status, got.body)
	}
}

// TestOneByteASecond checks the timeouts of clients that send slowly or nothing.
func TestOneByteASecond(t *testing.T) {
	whole := "Content-Length: 15\r\n\r\n" + `{"message":"a"}`
	for name, c := range map[string]struct {
		fast, slow string // after alice's head
		want       time.Duration
	}{
		"nothing at all":          {"", "", 10 * time.Second},
		"a head":                  {"", "HEAD", 10 * time.Second},
		"headers":                 {"HEAD", strings.Repeat("X: y\r\n", 100), 10 * time.Second},
		"a body":                  {"HEADContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000), 30 * time.Second},
		"chunks":                  {"HEADTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n \r\n", 100), 30 * time.Second},
		"a stranger's body":       {"POST /api/log HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000), 30 * time.Second},
		"a body of a GET":         {"GET /api/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000), 30 * time.Second},
		"a stranger's chunks":     {"POST /api/log HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n \r\n", 100), 30 * time.Second},
		"nothing after a request": {"HEAD" + whole, "", 60 * time.Second},
		"the next request":        {"HEAD" + whole, "HEAD", 14 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				w := piped(t)
				head := w.head("POST", "/api/log")
				began := time.Now()
				conn := w.dial(alice.UID)
				var writing sync.WaitGroup
				defer writing.Wait()
				defer conn.Close()
				writing.Go(func() {
					for i, part := range []string{c.fast, c.slow} {
						text := strings.ReplaceAll(part, "HEAD", head)
						for k := 0; k < len(text); k++ {
							if i == 1 {
								time.Sleep(time.Second)
							}
							if _, err := io.WriteString(conn, text[k:k+1]); err != nil {
								return
							}
						}
					}
				})
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(began); took < c.want-time.Second || took > c.want+2*time.Second {
					t.Errorf("closed after %s, want %s", took, c.want)
				}
				if name == "a body" && w.services.count() > 0 {
					t.Errorf("it was answered: %s", w.services.last())
				}
			})
		})
	}
}

// TestKeptConnection checks that the deadlines restart with each request.
func TestKeptConnection(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := piped(t)
		conn := w.dial(alice.UID)
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for range 5 {
			body := `{"message":"a"}`
			if _, err := io.WriteString(conn, w.head("POST", "/api/log")+"Content-Length: 15\r\nExpect: 100-continue\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			for _, want := range []int{100, 200} {
				r, err := http.ReadResponse(answers, nil)
				if err != nil || r.StatusCode != want {
					t.Fatalf("%v, %v, want %d", r, err, want)
				}
				if want == 100 {
					time.Sleep(25 * time.Second)
					if _, err := io.WriteString(conn, body); err != nil {
						t.Fatal(err)
					}
				} else if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(55 * time.Second)
		}
	})
}

// TestUnreadAnswer checks the timeout of clients that do not read the answer.
func TestUnreadAnswer(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := piped(t)
		conn := w.dial(alice.UID)
		defer conn.Close()
		if _, err := io.WriteString(conn, w.hidden()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
			t.Errorf("after 31 s it still says %.80q, %v", text, err)
		}
	})
}

// TestPercentEncodedSlashes checks that an encoded slash is part of a name, which is then invalid,
// and that nothing is decoded twice.
func TestPercentEncodedSlashes(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{
		"/api/secrets%2FKEY": 404, "/api%2fsecrets%2fKEY": 404, "/api/secrets/%2FKEY": 400, "/api/secrets/..%2FKEY": 400, "/api/secrets/%2e%2e%2fKEY": 400,
		"/api/secrets/%252FKEY": 400, "/api/config/%2E%2E": 400, "/api/config/..": 400, "/api/config/%2e": 400, "/api/config/a%2F..%2Fb": 400,
		"/api/sandbox-tool/..%2Flog": 400, "/api/secrets/%": 400, "/api/secrets/%zz": 400, "/api/secrets/%4": 400, "/api/secrets/%4BEY": 200, "/%61pi/secrets/KEY": 200,
		"/api/config/..%5C..%5Cx": 400, "/api/config/%c0%af": 400, "/api/config/%ef%bc%8f": 400,
	} {
		method := "GET"
		if strings.Contains(path, "tool") {
			method = "POST"
		}
		r := w.as(alice, method, path, "")
		r.headers["X-Osaurus-Script-Id"], r.headers["Connection"] = "s1", "close"
		if got := w.ask(r); got.status != want {
			t.Errorf("%s: %v, want %d", path, got, want)
		}
	}
	for _, asked := range w.services.asked {
		if asked != "agent-alice/rss secret KEY" {
			t.Errorf("asked for %s", asked)
		}
	}
}

// TestOneMiBToken checks that the size of a request's head is bounded.
func TestOneMiBToken(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("A", 1<<20)
	for name, text := range map[string]string{
		"token":   "GET /api/secrets/KEY HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + long + "\r\n\r\n",
		"plugin":  w.head("GET", "/api/secrets/KEY") + "X-Osaurus-Plugin: " + long + "\r\n\r\n",
		"path":    w.head("GET", "/api/secrets/"+long) + "\r\n",
		"headers": w.head("GET", "/api/secrets/KEY") + strings.Repeat("X: y\r\n", 1<<18) + "\r\n",
	} {
		if got := w.statuses(text); got != "431" {
			t.Errorf("a long %s: %s", name, got)
		}
	}
	if r := w.as(alice, "GET", "/api/secrets/KEY", ""); r.token != "" {
		r.token = long[:12<<10]
		if got := w.ask(r); got.status != 401 {
			t.Errorf("a token of 12 KiB: %v", got)
		}
	}
}
