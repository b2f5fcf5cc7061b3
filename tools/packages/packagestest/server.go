// Package packagestest builds and serves package repositories for tests of each package manager.
package packagestest

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// Clients of a server: programs on this host, or guests, which reach it through QEMU's user
// network.
const (
	ToHost   = "127.0.0.1"
	ToGuests = "10.0.2.2"
)

// Server serves files by path. The zero value is an empty server.
type Server struct {
	mu      sync.Mutex
	files   map[string][]byte
	asked   map[string]int
	inspect func(path string)
}

// Put adds or replaces a file.
func (s *Server) Put(path string, file []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	s.files[path] = file
}

// File returns a served file, or nil.
func (s *Server) File(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path]
}

// Inspect sets a function that is called before each request is answered; nil removes it.
func (s *Server) Inspect(f func(path string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = f
}

// Count returns how often a path was requested.
func (s *Server) Count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// Serve starts the server and returns its URL for a client.
func (s *Server) Serve(t testing.TB, to string) (url string) {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return "http://" + to + ":" + port
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	at := path.Clean(q.URL.Path) // apt asks for /./Packages
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[at]++
	inspect := s.inspect
	s.mu.Unlock()
	if inspect != nil {
		inspect(at)
	}
	file := s.File(at)
	if file == nil {
		http.NotFound(w, q)
		return
	}
	_, _ = w.Write(file)
}
