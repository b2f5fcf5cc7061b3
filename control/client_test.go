package control

import (
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"osaurus-sandbox/config"
)

// counting counts the connections that come.
type counting struct {
	net.Listener
	came *atomic.Int32
}

func (l counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.came.Add(1)
	}
	return conn, err
}

// The connection that proves that a daemon is there is also the one that calls go over.
func TestConnectDialsOnce(t *testing.T) {
	dir, err := os.MkdirTemp("", "c") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := config.Home(dir)
	l, remove, err := listen(home)
	if err != nil {
		t.Fatal(err)
	}
	var came, asked atomic.Int32
	server := &http.Server{Protocols: onlyHTTP2(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	})}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		_ = remove()
	})
	go func() { _ = server.Serve(counting{l, &came}) }()

	client, err := Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		_, _ = client.Hello(t.Context()) // of a daemon that knows no such call
	}
	if came.Load() != 1 || asked.Load() != 2 {
		t.Errorf("%d calls over %d connections", asked.Load(), came.Load())
	}
}
