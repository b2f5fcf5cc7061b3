// Package bridgetest runs the real bridge for tests, with services that keep everything in memory.
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

// limits returns limits that no test reaches.
func limits() config.BridgeLimits {
	return config.BridgeLimits{config.SecretCalls: 1e6, config.ConfigCalls: 1e6, config.InferenceCalls: 1e6, config.HTTPCalls: 1e6, config.DispatchCalls: 1e6, config.MemoryCalls: 1e6, config.LogCalls: 1e6}
}

// Bridge is a bridge for tests that listens on Unix sockets.
type Bridge struct {
	*Services
	Tokens *bridge.Tokens
	Server *bridge.Server
}

// New starts a bridge that is closed when the test ends.
func New(t testing.TB, change ...func(*bridge.Options)) *Bridge {
	b := &Bridge{Services: newServices(t), Tokens: bridge.NewTokens()}
	o := bridge.Options{Tokens: b.Tokens, Services: b.Services.all(), Limits: limits, Audit: noAudit{}, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	b.Server = bridge.NewServer(o)
	return b
}

// Listen serves the bridge on a socket until the test ends. All its clients have the uid.
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
		_ = b.Server.Close() // ends open connections
		serving.Wait()
	})
	return socket
}

// noAudit is an audit log that discards all records.
type noAudit struct{}

func (noAudit) Record(context.Context, bridge.Caller, bridge.Action, string, error) {}
