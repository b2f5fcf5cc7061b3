package source_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/source"
)

const (
	recipe = `{"name":"From Afar","description":"A recipe to import","tools":[{"id":"t","description":"Does nothing","run":"true"}]}`
	commit = "0123456789abcdef0123456789abcdef01234567"
)

// world returns a server and a client that may reach only that.
func world(t *testing.T, handle http.HandlerFunc) (*source.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	own := netip.MustParseAddrPort(server.Listener.Addr().String())
	return source.NewClient(source.Options{
		GitHubAPI: server.URL + "/api", GitHubRaw: server.URL + "/raw", Roots: roots,
		May: func(to netip.AddrPort) bool { return to == own },
	}), server
}

func get(t *testing.T, c *source.Client, text string) (source.Fetched, error) {
	t.Helper()
	s, err := source.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c.Get(context.Background(), s)
}

func TestAddress(t *testing.T) {
	c, server := world(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/r.json":
			w.Write([]byte(recipe))
		case "/moved":
			http.Redirect(w, r, "/r.json", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/r.json", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "https://127.0.0.1:9/r.json", http.StatusFound)
		case "/named":
			http.Redirect(w, r, "https://localhost:9/r.json", http.StatusFound)
		case "/big":
			w.Write(bytes.Repeat([]byte(" "), plugins.MaxRecipe+1))
		case "/page":
			w.Write([]byte("<html>"))
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		default:
			http.NotFound(w, r)
		}
	})
	for _, path := range []string{"/r.json", "/moved", "/r.json#part"} {
		f, err := get(t, c, server.URL+path)
		if err != nil || f.Recipe.Name != "From Afar" || len(f.SHA256) != 64 || f.Recipe.Metadata["imported_sha256"] != f.SHA256 ||
			f.Recipe.Metadata["imported_from"] != f.From || strings.Contains(f.From, "#") {
			t.Errorf("%s is %+v, %v", path, f, err)
		}
	}
	for path, want := range map[string]fault.Kind{
		"/none": fault.NotFound, "/round": fault.Unavailable, "/plain": fault.Rejected, "/inside": fault.Rejected, "/named": fault.Rejected,
		"/big": fault.Rejected, "/page": fault.InvalidArgs, "/broken": fault.Unavailable,
	} {
		if _, err := get(t, c, server.URL+path); err == nil || fault.KindOf(err) != want || fault.AdviceOf(err) == "" {
			t.Errorf("%s fails with %v, not with %s and advice", path, err, want)
		}
	}
}

// By default a client reaches nothing on this computer.
func TestInside(t *testing.T) {
	asked := false
	_, server := world(t, func(http.ResponseWriter, *http.Request) { asked = true })
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := source.NewClient(source.Options{Roots: roots})
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]"} {
		if _, err := get(t, c, "https://"+host+port+"/r.json"); err == nil || fault.KindOf(err) != fault.Rejected && host != "localhost" {
			t.Errorf("%s is asked: %v", host, err)
		}
	}
	if asked {
		t.Error("the server was asked")
	}
}

func TestRepository(t *testing.T) {
	var asked []string
	c, _ := world(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.EscapedPath())
		switch r.URL.EscapedPath() {
		case "/api/repos/a/b/commits/HEAD", "/api/repos/a/b/commits/feature%2Fx", "/api/repos/a/none/commits/HEAD":
			if r.Header.Get("Accept") != "application/vnd.github.sha" {
				t.Errorf("asked for %q", r.Header.Get("Accept"))
			}
			w.Write([]byte(commit))
		case "/api/repos/a/liar/commits/HEAD":
			w.Write([]byte("../../x"))
		case "/raw/a/b/" + commit + "/plugin.json":
			w.Write([]byte(recipe))
		default:
			http.NotFound(w, r)
		}
	})
	for _, text := range []string{"a/b", "https://github.com/a/b", "a/b.git", "a/b@feature/x"} {
		f, err := get(t, c, text)
		if err != nil || !strings.HasSuffix(f.From, "/raw/a/b/"+commit+"/plugin.json") || f.Recipe.Source != "https://github.com/a/b" {
			t.Errorf("%s is %+v, %v", text, f, err)
		}
	}
	for text, want := range map[string]fault.Kind{"a/none": fault.NotFound, "a/absent": fault.NotFound, "a/b@gone": fault.NotFound, "a/liar": fault.Execution} {
		if _, err := get(t, c, text); err == nil || fault.KindOf(err) != want {
			t.Errorf("%s fails with %v, not with %s", text, err, want)
		}
	}
	if i := slices.IndexFunc(asked, func(path string) bool { return strings.HasPrefix(path, "/raw/a/liar/") }); i >= 0 {
		t.Errorf("asked for %s, of an invalid commit", asked[i])
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "a", "http://example.com/x.json", "file:///etc/passwd", "ftp://example.com/", "https://", "https://me@example.com/x", "a/b@x..y", "a/..", "-a/b",
		"a/b/c", "https:/x", strings.Repeat("a", 40) + "/b", "https://example.com/" + strings.Repeat("a", 3000)} {
		if s, err := source.Parse(text); err == nil || fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%q is %+v, %v", text, s, err)
		}
	}
}

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.215.14": true, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.100.0.1": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "::1": false, "::ffff:10.0.0.1": false, "fe80::1": false, "fc00::1": false, "ff02::1": false,
		"64:ff9b::a00:1": false, "2002:a00:1::": false, "::a00:1": false,
	} {
		if policy.Public(netip.MustParseAddr(text)) != want {
			t.Errorf("%s is public: %v", text, !want)
		}
	}
}
