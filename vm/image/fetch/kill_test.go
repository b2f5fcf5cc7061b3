package fetch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
)

// TestMain makes this test program one that downloads, where asked to.
func TestMain(m *testing.M) {
	if u := os.Getenv("FETCH_URL"); u != "" {
		download(u)
		return
	}
	os.Exit(m.Run())
}

func download(u string) {
	fmt.Println("it begins")
	c := &fetch.Client{Dir: os.Getenv("FETCH_DIR"), Pause: noPause}
	f := fetch.File{URL: u, SHA256: pack.Digest{1}}
	if ca := os.Getenv("FETCH_CA"); ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			panic(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		c.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		f.SHA256 = pack.MustParseDigest(os.Getenv("FETCH_SHA256"))
		fmt.Sscan(os.Getenv("FETCH_SIZE"), &f.Size)
	}
	_, err := c.Get(context.Background(), f, nil)
	if fetch.Unreachable(err) {
		fmt.Println("unreachable:")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func child(t testing.TB, u, dir string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "FETCH_URL="+u, "FETCH_DIR="+dir), env...)
	return cmd
}

// kills is how many downloads are killed before one may finish.
const kills = 50

func TestKilledAtAnyMoment(t *testing.T) {
	b := content(4 << 20)
	var mu sync.Mutex
	var asked []int // from which byte on
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from := 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		mu.Lock()
		asked = append(asked, from)
		mu.Unlock()
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(slow{w}, r, "", time.Time{}, bytes.NewReader(b))
	})
	dir, ca := t.TempDir(), filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f := pin(s, b)
	run := func() *exec.Cmd {
		return child(t, f.URL, dir, "FETCH_CA="+ca, "FETCH_SHA256="+f.SHA256.String(), fmt.Sprint("FETCH_SIZE=", len(b)))
	}
	killed, span := 0, 120*time.Millisecond
	for range kills {
		cmd := run()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // a busy host takes longer to start it than it lives
			t.Fatal(err)
		}
		before := received(dir)
		time.Sleep(rand.N(span))
		cmd.Process.Kill()
		_ = cmd.Wait()
		if received(dir) == before { // a busy host has it get nothing in that time
			span += span / 10
		}
		switch cmd.ProcessState.ExitCode() {
		case -1:
			killed++
		case 0: // it was done before its moment
		default:
			t.Fatalf("it failed: %v", cmd.ProcessState)
		}
	}
	if out, err := run().CombinedOutput(); err != nil {
		t.Fatalf("after %d kills: %v\n%s", killed, err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "file.iso"))
	if err != nil || sha256.Sum256(got) != sha256.Sum256(b) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if n := left(t, &fetch.Client{Dir: dir}); n != "file.iso" {
		t.Errorf("%q is left", n)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d kills, asked from %d", killed, asked)
	if !slices.IsSorted(asked) || asked[len(asked)-1] == 0 || killed < kills/2 {
		t.Error("the download was not killed often, or did not go on where it was")
	}
}

// received is how much there is in a folder of downloads.
func received(dir string) (size int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// slow sends a little at a time, so that there is time to be killed.
type slow struct{ http.ResponseWriter }

func (s slow) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n, err := s.ResponseWriter.Write(p[:min(len(p), 8<<10)])
		s.ResponseWriter.(http.Flusher).Flush()
		if written += n; err != nil {
			return written, err
		}
		p = p[n:]
		time.Sleep(5 * time.Millisecond)
	}
	return written, nil
}
