package network

import (
	"context"
	"net"
	"net/netip"
)

// resolver answers DNS. *names.Server implements it.
type resolver interface {
	// Answer returns the answer to a query of a subject, or nil.
	Answer(ctx context.Context, subject netip.Addr, query []byte, stream bool) []byte
	// ServeStream answers the queries of a connection, and closes it.
	ServeStream(ctx context.Context, c net.Conn)
	// Forget drops what is known of a subject.
	Forget(subject netip.Addr)
}

// noNames answers nothing, and knows no names.
type noNames struct{}

func (noNames) Lookup(_, _ netip.Addr) []string                         { return nil }
func (noNames) Held(_, _ netip.Addr) (string, bool)                     { return "", false }
func (noNames) Answer(context.Context, netip.Addr, []byte, bool) []byte { return nil }
func (noNames) ServeStream(_ context.Context, c net.Conn)               { _ = c.Close() }
func (noNames) Forget(netip.Addr)                                       {}
