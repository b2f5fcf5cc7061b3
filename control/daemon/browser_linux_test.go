package daemon_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/freeport"
)

// browsing is how long a browser may take for all attempts: on a busy computer its start
// alone takes most of a minute.
const browsing = 6 * time.Minute

// attack is the script of a page. It reports what it can read.
//
//go:embed testdata/attack.js
var attack string

// Host names that the browser's proxy serves.
const (
	evilHost = "evil.example"
	goodHost = "good.example"
)

// read is an answer of the daemon that a page could read.
type read struct {
	Page, What, Text string
	Status           int
}

// site serves the pages, and is the browser's proxy for all but this computer's own
// addresses.
type site struct {
	targets map[string]string // of the pages: API and MCP
	tokens  map[string]string
	marker  string // what a page has a command make
	self    string

	mu    sync.Mutex
	reads []read
	done  map[string]int // pages that have tried everything, and how much that was
	told  chan struct{}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/told":
		s.tell(r)
	case r.URL.Path == "/all": // what the user opens
		for _, page := range s.pages() {
			fmt.Fprintf(w, `<iframe src="%s"></iframe>`, page)
		}
		fmt.Fprintf(w, `<iframe sandbox="allow-scripts allow-forms" srcdoc="%s"></iframe>`, html.EscapeString(s.page("nowhere")))
	case r.URL.Path == "/page":
		fmt.Fprint(w, s.page(r.Host))
	case strings.HasPrefix(r.Host, evilHost+":"): // whose name stands for this computer by now
		_, port, _ := net.SplitHostPort(r.Host)
		target := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}
		proxy := httputil.ReverseProxy{
			Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // it was hung up on
		}
		proxy.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// pages returns the pages: of another host, of this computer's own address, of a host name
// that is rebound to this computer, and of an allowed host.
func (s *site) pages() (list []string) {
	for _, host := range []string{goodHost, evilHost, s.self} {
		list = append(list, "http://"+host+"/page")
	}
	for _, target := range s.targets {
		_, port, _ := net.SplitHostPort(target)
		list = append(list, "http://"+net.JoinHostPort(evilHost, port)+"/page")
	}
	return list
}

func (s *site) page(host string) string {
	set, _ := json.Marshal(map[string]any{
		"page": host, "good": host == goodHost, "tell": "http://" + s.self + "/told", "targets": s.targets, "tokens": s.tokens, "marker": s.marker,
	})
	return fmt.Sprintf("<!doctype html><body><script>const at = %s;\n%s</script>", set, attack)
}

func (s *site) tell(r *http.Request) {
	var what struct {
		read
		Tried int // when it has ended
	}
	if json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&what) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if what.Tried == 0 {
		s.reads = append(s.reads, what.read)
		return
	}
	s.done[what.Page] = what.Tried
	if len(s.done) == len(s.pages())+1 { // with the one that is nowhere
		close(s.told)
	}
}

// browse opens the pages in a browser until they have made all attempts.
func (s *site) browse(t *testing.T, program string) {
	t.Helper()
	folder := t.TempDir()
	arguments := []string{
		"--headless", "--disable-gpu", "--no-first-run", "--user-data-dir=" + folder, "--proxy-server=" + s.self,
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad", "--disable-crash-reporter", "--disable-dev-shm-usage",
		// Newer browsers would ask the user first. Others do not, and not everybody says no.
		"--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,MediaRouter,OptimizationHints",
	}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--no-sandbox") // it starts for root in no other way
	}
	browser := exec.CommandContext(t.Context(), program, append(arguments, "http://"+s.self+"/all")...)
	var said bytes.Buffer
	browser.Stdout, browser.Stderr = &said, &said
	browser.Env = append(os.Environ(), "HOME="+folder, "TMPDIR="+folder)
	browser.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	browser.WaitDelay = limit
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- browser.Wait() }()
	defer func() {
		_ = syscall.Kill(-browser.Process.Pid, syscall.SIGKILL)
		<-ended
	}()
	select {
	case <-s.told:
	case err := <-ended:
		ended <- err
		t.Fatalf("the browser ended: %v\n%s", err, said.String())
	case <-time.After(browsing):
		s.mu.Lock()
		defer s.mu.Unlock()
		t.Fatalf("after %v only these have tried everything: %v, of %v", browsing, s.done, s.pages())
	}
}

// Pages in a real browser try every way to call the daemon, with its tokens. Only the allowed
// page reads answers.
func TestBrowser(t *testing.T) {
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("*** NOT TRIED: there is no chromium; apt-get install chromium")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api, shown := freeport.Address(t), freeport.Address(t)
	s := &site{
		targets: map[string]string{"api": api, "mcp": shown}, tokens: map[string]string{}, marker: filepath.Join(t.TempDir(), "ran"),
		self: listener.Addr().String(), done: map[string]int{}, told: make(chan struct{}),
	}
	home := newHome(t, "home")
	const good = "http://" + goodHost
	if err := config.Edit(home, func(f *config.File) error { return errors.Join(f.Set("mcp.listen", shown), f.Set("mcp.origins", good)) }); err != nil {
		t.Fatal(err)
	}
	client, _ := serve(t, daemon.Options{Home: home, TCP: &control.TCP{Address: api, Origins: []string{good}}})
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", shown)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody listens for MCP")
		}
	}
	for name, path := range map[string]string{"api": home.APIToken(), "mcp": home.MCPToken()} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[name] = strings.TrimSpace(string(text))
	}
	web := &http.Server{Handler: s}
	defer web.Close()
	go func() { _ = web.Serve(listener) }()
	s.browse(t, program)

	const fewest = 60 // ways, of each page
	for page, tried := range s.done {
		if tried < fewest && page != goodHost {
			t.Errorf("%s tried only %d ways", page, tried)
		}
	}
	var good200 []string
	for _, r := range s.reads {
		switch {
		case r.Page == goodHost:
			if r.Status == http.StatusOK {
				good200 = append(good200, r.What)
			}
		case !strings.HasPrefix(r.Page, evilHost+":"):
			t.Errorf("%s can read what it is told of %s: %d %s", r.Page, r.What, r.Status, r.Text)
		case r.Status != http.StatusBadGateway && !strings.Contains(r.Text, "unknown host name"): // for who has its own name stand for the daemon
			t.Errorf("%s reads of %s: %d %s", r.Page, r.What, r.Status, r.Text)
		}
		for name, token := range s.tokens {
			if r.Page != goodHost && (strings.Contains(r.Text, token) || strings.Contains(r.Text, string(home))) {
				t.Errorf("%s is told the %s token, or the home, by %s: %s", r.Page, name, r.What, r.Text)
			}
		}
	}
	slices.Sort(good200)
	if want := []string{"exec", "mcp", "status"}; !slices.Equal(good200, want) {
		t.Errorf("the page that may call reads %q, want %q: %v", good200, want, s.reads)
	}
	ran, err := os.ReadFile(s.marker)
	if string(ran) != goodHost+"\n" {
		t.Errorf("commands of these pages ran: %q %v", ran, err)
	}
	list, err := client.Agents.List(t.Context(), &controlpb.ListAgentsRequest{})
	if err != nil || len(list.Agents) != 1 || list.Agents[0].Name != "good" {
		t.Errorf("pages made agents: %v %v", list, err)
	}
}
