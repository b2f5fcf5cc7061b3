package control

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
)

// pipes is a listener in memory, for tests in virtual time.
type pipes struct {
	calls chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// call connects.
func (p *pipes) call() net.Conn {
	here, there := net.Pipe()
	go func() {
		select {
		case p.calls <- there:
		case <-p.done:
			_ = there.Close()
		}
	}()
	return here
}

// A connection beyond the limit waits until another one has closed.
func TestConnectionsAreLimited(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		listener := newPipes()
		l := limitConnections(listener)
		defer l.Close()
		accepted := make(chan net.Conn, 2*maxTCPConnections)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		for range maxTCPConnections + 1 {
			defer listener.call().Close()
		}
		timetest.Wait()
		if len(accepted) != maxTCPConnections {
			t.Fatalf("%d are in, of at most %d", len(accepted), maxTCPConnections)
		}
		_ = (<-accepted).Close()
		timetest.Wait()
		if len(accepted) != maxTCPConnections {
			t.Errorf("%d are in after one has left", len(accepted))
		}
	})
}

// Idle connections are closed: without a request, with half of one, and after an admitted
// one.
func TestSilenceEnds(t *testing.T) {
	const asked = "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n"
	for name, tc := range map[string]struct {
		says  string
		stays time.Duration
	}{
		"nothing":       {"", headerTimeout},
		"half a head":   {asked[:20], headerTimeout},
		"has the token": {asked, idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				listener := newPipes()
				g := Guard{Token: "secret", Hosts: LocalHosts("127.0.0.1:80"), Refuse: refuse}
				server := g.Server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), slog.New(slog.DiscardHandler))
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(listener) }()
				conn, began := listener.call(), time.Now()
				go func() { _, _ = io.WriteString(conn, tc.says) }()
				if tc.says == asked {
					answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil || answer.StatusCode != http.StatusOK {
						t.Fatalf("%v %v", answer, err)
					}
					_ = answer.Body.Close()
				}
				_, _ = io.Copy(io.Discard, conn) // until it is closed
				if took := time.Since(began); took < tc.stays || took > tc.stays+time.Second {
					t.Errorf("the connection is closed after %v, not %v", took, tc.stays)
				}
				_ = server.Close()
				<-ended
			})
		})
	}
}
