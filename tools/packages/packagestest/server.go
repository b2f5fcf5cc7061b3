// Package packagestest makes and serves repositories of packages, of every manager's kind.
package packagestest

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// Who is served: programs of this host, or guests, which see it at an address of
// QEMU's user network.
const (
	ToHost   = "127.0.0.1"
	ToGuests = "10.0.2.2"
)

// Server is what a host serves to guests: files by their path. The zero value
// serves none yet.
type Server struct {
	mu      sync.Mutex
	files   map[string][]byte
	asked   map[string]int
	inspect func(path string)
}

// Put has a file be served.
func (s *Server) Put(path string, file []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	s.files[path] = file
}

// File is a file that is served, or nil.
func (s *Server) File(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path]
}

// Drop has a file not be served any more.
func (s *Server) Drop(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, path)
}

// Inspect has a function be called for each request before it is answered, or
// none for nil.
func (s *Server) Inspect(f func(path string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = f
}

// Count says how often a path was asked for.
func (s *Server) Count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// Serve begins to serve, and returns the address for whom it is.
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
