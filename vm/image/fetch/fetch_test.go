package fetch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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

// content returns n random bytes.
func content(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // some handshakes fail on purpose
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

// whole serves b like a good server.
func whole(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}
}

// left lists the client's folder without locks.
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

func TestDownloadsOnce(t *testing.T) {
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
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests for one download", n)
	}
}

func TestWrongByteIsRejectedAndDeleted(t *testing.T) {
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
	damaged := bytes.Clone(b)
	damaged[77_777] ^= 1
	if err := os.WriteFile(filepath.Join(c.Dir, "file.iso"), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, f, b) // it is downloaded again
}

func TestRejectsBadServers(t *testing.T) {
	b := content(50_000)
	other := serve(t, whole(b))
	plain := httptest.NewServer(whole(b))
	t.Cleanup(plain.Close)
	for what, c := range map[string]struct {
		h    http.HandlerFunc
		want fault.Kind
	}{
		"redirect to another host": {http.RedirectHandler(other.URL+"/file.iso", http.StatusFound).ServeHTTP, fault.Rejected},
		"redirect to http":         {http.RedirectHandler(plain.URL+"/file.iso", http.StatusFound).ServeHTTP, fault.Rejected},
		"redirect without end":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, fault.Rejected},
		"too long":                 {whole(append(bytes.Clone(b), 1)), fault.Rejected},
		"too short":                {whole(b[1:]), fault.Rejected},
		"ends early, chunked":      {func(w http.ResponseWriter, _ *http.Request) { w.Write(b[1:]) }, fault.Rejected},
		"gone":                     {http.NotFound, fault.NotFound},
		"forbidden":                {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }, fault.Unavailable},
		"broken":                   {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, fault.Unavailable},
		"silent": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // a return would answer a client that is about to close the connection
		}, fault.Unavailable},
	} {
		t.Run(what, func(t *testing.T) {
			s := serve(t, c.h)
			client, f := client(t, s), pin(s, b)
			if what == "silent" {
				client.Idle = 300 * time.Millisecond
			}
			_, err := client.Get(t.Context(), f, nil)
			if fault.KindOf(err) != c.want || fault.AdviceOf(err) == "" || fetch.Unreachable(err) != (what == "silent") {
				t.Errorf("%v (%s, %q), want %s", err, fault.KindOf(err), fault.AdviceOf(err), c.want)
			}
			if got := left(t, client); got != "" {
				t.Errorf("%q is left", got)
			}
		})
	}
}

// TestWrongLengthFailsAtOnce checks that nothing is read of a body whose length is wrong.
func TestWrongLengthFailsAtOnce(t *testing.T) {
	for _, length := range []string{"999", "1001"} {
		var requests atomic.Int32
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.Header().Set("Content-Length", length)
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		_, err := client(t, s).Get(t.Context(), pin(s, content(1000)), nil)
		if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), length+" bytes, but 1000 are pinned") || requests.Load() != 1 {
			t.Errorf("%d requests, %v", requests.Load(), err)
		}
	}
}

func TestEndlessBody(t *testing.T) {
	block := make([]byte, 1<<20)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	c := client(t, s)
	if _, err := c.Get(t.Context(), pin(s, []byte("x")), nil); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "but 1 are pinned") {
		t.Errorf("%v, want rejected", err)
	}
	if got := left(t, c); got != "" {
		t.Errorf("%q is left", got)
	}
}

func TestResume(t *testing.T) {
	b := content(400_000)
	for what, second := range map[string]string{ // the range of the second request
		"a good server":            "bytes=100000-",
		"a server without ranges":  "",
		"a range nobody asked for": "bytes=5-",
		"a range beyond the file":  "bytes=400000-",
	} {
		t.Run(what, func(t *testing.T) {
			var sent atomic.Int64
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				if got := r.Header.Get("Range"); n == 2 && got != "bytes=100000-" {
					t.Errorf("the second request is for %q", got)
				}
				if n == 2 {
					r.Header.Set("Range", second)
				}
				http.ServeContent(&cut{w, n == 1, 100_000, &sent}, r, "", time.Time{}, bytes.NewReader(b))
			})
			mustGet(t, client(t, s), pin(s, b), b)
			if what == "a good server" && sent.Load() != int64(len(b)) {
				t.Errorf("the server sent %d bytes, want %d", sent.Load(), len(b))
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
	c.left -= len(p)
	c.sent.Add(int64(len(p))) // before the last bytes end the test
	return c.ResponseWriter.Write(p)
}

func TestUnreachable(t *testing.T) {
	for _, host := range []string{"127.0.0.1:1", "host.invalid"} { // nobody listens on port 1
		c := &fetch.Client{Dir: t.TempDir(), Pause: noPause}
		_, err := c.Get(t.Context(), fetch.File{URL: "https://" + host + "/f", SHA256: pack.Digest{1}}, nil)
		if !fetch.Unreachable(err) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v, want it to be unreachable", host, err)
		}
	}
	s := serve(t, whole([]byte("x"))) // its certificate is not trusted
	c := &fetch.Client{Dir: t.TempDir(), Pause: noPause}
	if _, err := c.Get(t.Context(), pin(s, []byte("x")), nil); err == nil || fetch.Unreachable(err) {
		t.Errorf("a bad certificate: %v, want another error than unreachable", err)
	}
}

func TestProxyThatRefusesMakesHostUnreachable(t *testing.T) {
	const inside = "FETCH_PROXY_TEST"
	if os.Getenv(inside) != "" {
		c := &fetch.Client{Dir: t.TempDir(), Pause: noPause}
		if _, err := c.Get(t.Context(), fetch.File{URL: "https://host.invalid/f"}, nil); !fetch.Unreachable(err) || !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("Get = %v, want unreachable", err)
		}
		return
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer proxy.Close()
	// The environment is read once in a process.
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"=1", "HTTPS_PROXY="+proxy.URL, "https_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
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

func TestContextEnds(t *testing.T) {
	b := content(1000)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write(b[:500])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := client(t, s).Get(ctx, pin(s, b), nil); !errors.Is(err, context.DeadlineExceeded) || fault.KindOf(err) != fault.Timeout {
		t.Errorf("Get = %v, want timeout", err)
	}
}
