// Package bridgetest is a bridge for tests: the real server, over services that keep what they are told in memory.
package bridgetest

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
)

// limits are so high that no test reaches them.
func limits() config.BridgeLimits {
	return config.BridgeLimits{Secrets: 1e6, Config: 1e6, Inference: 1e6, HTTP: 1e6, Dispatch: 1e6, Memory: 1e6, Log: 1e6}
}

// Bridge is a bridge that listens on Unix sockets of this host.
type Bridge struct {
	*Services
	Tokens *bridge.Tokens
	Server *bridge.Server
}

// New returns a bridge that ends with the test. Of its options only what a test
// changes is chosen by it.
func New(t testing.TB, change ...func(*bridge.Options)) *Bridge {
	b := &Bridge{Services: newServices(t), Tokens: bridge.NewTokens()}
	o := bridge.Options{Tokens: b.Tokens, Services: b.Services.all(), Limits: limits, Audit: unwritten{}, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	b.Server = bridge.NewServer(o)
	return b
}

// Listen returns a socket whose every visitor is a user of a guest. It is
// served until the test ends.
func (b *Bridge) Listen(t testing.TB, uid uint32) (socket string) {
	socket = filepath.Join(t.TempDir(), "bridge.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := b.Server.Serve(As(l, uid, "")); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = b.Server.Close() // of those that are still connected
		serving.Wait()
	})
	return socket
}

// unwritten is an audit that keeps nothing.
type unwritten struct{}

func (unwritten) Record(context.Context, bridge.Caller, bridge.Action, string, error) {}
