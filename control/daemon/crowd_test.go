package daemon_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
)

// A hundred apps that ask twice a second each, and a hundred that ask again as
// soon as they are answered. On a host that is so busy that a server of nothing, with a
// crowd of its own beside, takes long too, that is the measure: an answer costs some
// three times as much. One in a hundred may be unlucky.
func TestStatusWithCrowd(t *testing.T) {
	const bound, boundLate, slack, tries = 100 * time.Millisecond, 2 * time.Second, 8, 6
	client, _ := serve(t, daemon.Options{})
	empty := emptyServer(t)
	for name, c := range map[string]crowd{
		"polling": {calls: 3, every: 500 * time.Millisecond},
		"eager":   {calls: 10},
	} {
		t.Run(name, func(t *testing.T) {
			var status, nothing answers
			for range tries {
				var beside sync.WaitGroup
				beside.Go(func() { nothing = c.ask(t, empty) })
				status = c.ask(t, func() error {
					_, err := client.Status(t.Context(), &controlpb.StatusRequest{})
					return err
				})
				beside.Wait()
				if status.median < max(bound, slack*nothing.median) && status.late < max(boundLate, slack*nothing.late) {
					t.Logf("%+v, an empty server %+v", status, nothing)
					return
				}
			}
			t.Errorf("it takes %+v, an empty server %+v", status, nothing)
		})
	}
}

// crowd is a hundred callers at once.
type crowd struct {
	calls int           // of each
	every time.Duration // how far apart at most; zero is without a pause
}

// answers is how long calls take: half of them, and all but one in a hundred, no longer.
type answers struct{ median, late time.Duration }

func (c crowd) ask(t *testing.T, call func() error) answers {
	const callers = 100
	took := make([]time.Duration, callers*c.calls)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range c.calls {
				if c.every > 0 {
					time.Sleep(rand.N(c.every))
				}
				began := time.Now()
				if err := call(); err != nil {
					t.Error(err)
				}
				took[caller*c.calls+i] = time.Since(began)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return answers{took[len(took)/2], took[len(took)*99/100]}
}

// emptyServer returns a call of a server that does nothing, over the same
// protocol as the API's.
func emptyServer(t *testing.T) func() error {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: limit}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func() error {
		r, err := client.Post("http://empty/", "application/json", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		return r.Body.Close()
	}
}
