package control

import (
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
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

// serving is a home whose daemon is a function of a test, and how many connections it has had.
func serving(t *testing.T, daemon http.HandlerFunc) (config.Home, *atomic.Int32) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, remove, err := listen(config.Home(dir))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: onlyHTTP2(), Handler: daemon}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		_ = remove()
	})
	came := new(atomic.Int32)
	go func() { _ = server.Serve(counting{l, came}) }()
	return config.Home(dir), came
}

// A client that is closed leaves no call behind, neither here nor in the daemon, and makes no other.
func TestCloseEndsWhatRuns(t *testing.T) {
	begun, ended := make(chan bool), make(chan bool)
	home, came := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
		close(ended)
	})
	client, err := Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := client.Status(t.Context(), &controlpb.StatusRequest{})
		failed <- err
	}()
	<-begun
	client.Close()
	late := time.After(time.Minute)
	select {
	case err := <-failed:
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("the call: %v", err)
		}
	case <-late:
		t.Fatal("the call goes on")
	}
	select {
	case <-ended:
	case <-late:
		t.Fatal("the daemon goes on with the call")
	}
	if _, err := client.Status(t.Context(), &controlpb.StatusRequest{}); fault.KindOf(err) != fault.Unavailable || came.Load() != 2 {
		t.Errorf("a call of a client that is closed: %v, %d connections", err, came.Load())
	}
}
