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

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
)

// A hundred apps that ask twice a second each. On a host that is so busy that
// a server of nothing takes long too, that is the measure.
func TestStatusWithCrowd(t *testing.T) {
	const bound, slack, tries = 100 * time.Millisecond, 2, 6
	client, _ := serve(t, daemon.Options{})
	empty := emptyServer(t)
	var status, nothing time.Duration
	for range tries {
		status = crowd(t, func() error {
			_, err := client.Status(t.Context(), connect.NewRequest(&controlpb.StatusRequest{}))
			return err
		})
		if status < bound {
			return
		}
		if nothing = crowd(t, empty); status < slack*nothing {
			return
		}
	}
	t.Errorf("p99 is %v, that of an empty server %v", status, nothing)
}

// crowd returns the p99 of what a hundred callers at once wait for.
func crowd(t *testing.T, call func() error) time.Duration {
	const callers, calls, every = 100, 3, 500 * time.Millisecond
	took := make([]time.Duration, callers*calls)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range calls {
				time.Sleep(rand.N(every))
				began := time.Now()
				if err := call(); err != nil {
					t.Error(err)
				}
				took[caller*calls+i] = time.Since(began)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
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
