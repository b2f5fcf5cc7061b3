package fetch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
)

var noPause = time.Millisecond

// content is a file of n bytes that does not repeat.
func content(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are meant to
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func pin(s *httptest.Server, b []byte) fetch.File {
	return fetch.File{URL: s.URL + "/v3/file.iso", Size: int64(len(b)), SHA256: sha256.Sum256(b)}
}

func client(t testing.TB, s *httptest.Server) *fetch.Client {
	return &fetch.Client{Dir: t.TempDir(), Transport: s.Client().Transport, Pause: noPause, Idle: time.Minute}
}

// whole serves b as a good server does.
func whole(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}
}

// left lists what is in the client's folder besides locks.
func left(t testing.TB, c *fetch.Client) string {
	t.Helper()
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func mustGet(t testing.TB, c *fetch.Client, f fetch.File, want []byte) {
	t.Helper()
	path, err := c.Get(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if got := left(t, c); got != "file.iso" {
		t.Errorf("the folder has %q", got)
	}
}

func TestDownloadsOnceWithProgress(t *testing.T) {
	b := content(1 << 20)
	var requests atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { requests.Add(1); whole(b)(w, r) })
	c, f := client(t, s), pin(s, b)
	var last progress.Event
	if _, err := c.Get(t.Context(), f, func(e progress.Event) { last = e }); err != nil {
		t.Fatal(err)
	}
	if !last.Finished || last.Done != 1<<20 || last.Total != 1<<20 || last.Rate <= 0 {
		t.Errorf("the last report is %+v", last)
	}
	mustGet(t, c, f, b)
	f.Size = 0 // an unknown size is fine
	again := client(t, s)
	mustGet(t, again, f, b)
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests for two downloads", n)
	}
}

func TestAWrongByteIsRefusedAndDeleted(t *testing.T) {
	b := content(100_000)
	var flip atomic.Bool
	flip.Store(true)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent := bytes.Clone(b)
		if flip.Load() {
			sent[77_777] ^= 1
		}
		whole(sent)(w, r)
	})
	c, f := client(t, s), pin(s, b)
	refused := func() {
		t.Helper()
		_, err := c.Get(t.Context(), f, nil)
		wrong := bytes.Clone(b)
		wrong[77_777] ^= 1
		for _, part := range []string{"file.iso", f.SHA256.String(), pack.Digest(sha256.Sum256(wrong)).String()} {
			if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), part) || fault.AdviceOf(err) == "" {
				t.Fatalf("%v: want rejected, naming %s", err, part)
			}
		}
		if got := left(t, c); got != "" {
			t.Fatalf("%q is left", got)
		}
	}
	refused()
	flip.Store(false)
	mustGet(t, c, f, b)
	b2 := bytes.Clone(b) // on the disk, after it was downloaded
	b2[77_777] ^= 1
	if err := os.WriteFile(filepath.Join(c.Dir, "file.iso"), b2, 0o600); err != nil {
		t.Fatal(err)
	}
	refused()
	mustGet(t, c, f, b)
}

func TestRefusesServersThatMisbehave(t *testing.T) {
	b := content(50_000)
	other := serve(t, whole(b))
	plain := httptest.NewServer(whole(b))
	t.Cleanup(plain.Close)
	for what, c := range map[string]struct {
		h       http.HandlerFunc
		unknown bool // the file's size
		want    fault.Kind
	}{
		"redirect to another host": {h: http.RedirectHandler(other.URL+"/file.iso", http.StatusFound).ServeHTTP, want: fault.Rejected},
		"redirect to http":         {h: http.RedirectHandler(plain.URL+"/file.iso", http.StatusFound).ServeHTTP, want: fault.Rejected},
		"redirect without end":     {h: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, want: fault.Rejected},
		"too long":                 {h: whole(append(bytes.Clone(b), 1)), want: fault.Rejected},
		"too short":                {h: whole(b[1:]), want: fault.Rejected},
		"far too long":             {h: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", fmt.Sprint(600<<20)) }, unknown: true, want: fault.Rejected},
		"packed unasked":           {h: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Encoding", "gzip"); w.Write(b) }, want: fault.Rejected},
		"gone":                     {h: http.NotFound, want: fault.NotFound},
		"forbidden":                {h: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }, want: fault.Unavailable},
		"broken":                   {h: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, want: fault.Unavailable},
		"silent":                   {h: func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, want: fault.Unavailable},
	} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, c.h)
			client, f := client(t, s), pin(s, b)
			if what == "silent" {
				client.Idle = 300 * time.Millisecond
			}
			if c.unknown {
				f.Size = 0
			}
			_, err := client.Get(t.Context(), f, nil)
			if fault.KindOf(err) != c.want || fault.AdviceOf(err) == "" || fetch.Unreachable(err) {
				t.Errorf("%v (%s, %q), want %s", err, fault.KindOf(err), fault.AdviceOf(err), c.want)
			}
			if got := left(t, client); got != "" {
				t.Errorf("%q is left", got)
			}
		})
	}
}

func TestAnEndlessBodyEnds(t *testing.T) {
	block := make([]byte, 1<<20)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	c, f := client(t, s), pin(s, make([]byte, 10<<20))
	c.Idle = 0
	f.SHA256 = pack.Digest{1}
	if _, err := c.Get(t.Context(), f, nil); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a known size: %v", err)
	}
	f.Size = 0
	if _, err := c.Get(t.Context(), f, nil); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "sends more than") {
		t.Errorf("an unknown size: %v", err)
	}
	if got := left(t, c); got != "" {
		t.Errorf("%q is left", got)
	}
}

func TestGoesOnWhereItStopped(t *testing.T) {
	b := content(400_000)
	for what, c := range map[string]struct {
		tag, range_, later bool // what the server keeps, and heeds, and changes
		mustSend           int64
	}{
		"a good server":            {tag: true, range_: true, mustSend: 400_000},
		"without tags":             {range_: true, mustSend: 400_000},
		"a server without ranges":  {tag: true, mustSend: 500_000},
		"a file that changed once": {tag: true, range_: true, later: true, mustSend: 500_000},
	} {
		t.Run(what, func(t *testing.T) {
			var sent atomic.Int64
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				if !c.range_ {
					r.Header.Del("Range")
				}
				content := b
				if c.later && n == 1 {
					content = bytes.Repeat([]byte("old"), len(b)/3+1)[:len(b)]
				}
				if c.tag {
					w.Header().Set("ETag", fmt.Sprintf(`"v%t"`, c.later && n == 1))
				}
				http.ServeContent(&cut{w, n == 1, 100_000, &sent}, r, "", time.Time{}, bytes.NewReader(content))
			})
			mustGet(t, client(t, s), pin(s, b), b)
			if got := sent.Load(); got != c.mustSend {
				t.Errorf("the server sent %d bytes, want %d", got, c.mustSend)
			}
		})
	}
}

// cut is a response that breaks off.
type cut struct {
	http.ResponseWriter
	breaks bool
	left   int
	sent   *atomic.Int64
}

func (c *cut) Write(p []byte) (int, error) {
	if c.breaks {
		if p = p[:min(len(p), c.left)]; len(p) == 0 {
			c.ResponseWriter.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	n, err := c.ResponseWriter.Write(p)
	c.left -= n
	c.sent.Add(int64(n))
	return n, err
}

func TestARangeThatWasNotAskedForIsNotKept(t *testing.T) {
	b := content(300_000)
	var requests atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 1:
			http.ServeContent(&cut{w, true, 1000, new(atomic.Int64)}, r, "", time.Time{}, bytes.NewReader(b))
		case 2:
			r.Header.Set("Range", "bytes=5-")
			fallthrough
		default:
			whole(b)(w, r)
		}
	})
	mustGet(t, client(t, s), pin(s, b), b)
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	for _, host := range []string{address, "host.invalid"} {
		c := &fetch.Client{Dir: t.TempDir(), Pause: noPause}
		_, err := c.Get(t.Context(), fetch.File{URL: "https://" + host + "/f", SHA256: pack.Digest{1}}, nil)
		if !fetch.Unreachable(err) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v, want it to be unreachable", host, err)
		}
	}
	s := serve(t, whole([]byte("x"))) // somebody is there, but not whom we trust
	c := &fetch.Client{Dir: t.TempDir(), Pause: noPause}
	if _, err := c.Get(t.Context(), pin(s, []byte("x")), nil); err == nil || fetch.Unreachable(err) {
		t.Errorf("a bad certificate: %v, want another error than unreachable", err)
	}
}

func TestAProxyThatSaysNoMakesTheHostUnreachable(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "host.invalid:443" {
			t.Errorf("the proxy was asked for %s %s", r.Method, r.Host)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	// The environment is read once in a process, so a child looks at it.
	out := child(t, "https://host.invalid/f", t.TempDir(), "HTTPS_PROXY="+proxy.URL, "https_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if b, _ := out.CombinedOutput(); !strings.Contains(string(b), "unreachable") || !strings.Contains(string(b), "Forbidden") {
		t.Errorf("the child says %s", b)
	}
}

func TestOnlyHTTPS(t *testing.T) {
	for _, u := range []string{"http://host.invalid/f", "file:///etc/passwd", "https:///f", ":"} {
		c := &fetch.Client{Dir: t.TempDir()}
		if _, err := c.Get(t.Context(), fetch.File{URL: u}, nil); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%s: %v, want invalid_args", u, err)
		}
	}
}

func TestEndsWithItsContext(t *testing.T) {
	b := content(1000)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write(b[:500])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c, f := client(t, s), pin(s, b)
	got := ""
	for timeout := 200 * time.Millisecond; got == "" && timeout < time.Minute; timeout *= 4 { // until some of it came
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if _, err := c.Get(ctx, f, nil); !errors.Is(err, context.DeadlineExceeded) || fault.KindOf(err) != fault.Timeout {
			t.Errorf("Get = %v, want timeout", err)
		}
		got = left(t, c)
	}
	if got != "file.iso.part" {
		t.Errorf("%q is left, want what came", got)
	}
}

func TestOneDownloadsAndOthersWait(t *testing.T) {
	b := content(200_000)
	var requests atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		time.Sleep(50 * time.Millisecond)
		whole(b)(w, r)
	})
	c, f := client(t, s), pin(s, b)
	done := make(chan error)
	for range 4 {
		go func() {
			_, err := c.Get(context.Background(), f, nil)
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
