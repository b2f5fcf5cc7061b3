package names

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"osaurus-sandbox/network/policy"
)

// Options configure a server. A subject is the address of a room.
type Options struct {
	Table *Table
	// Decide decides whether a subject may resolve a name. It must be fast.
	Decide func(subject netip.Addr, name string) policy.Decision
	// Permit decides whether a subject may be told an address for a name. The name is empty for
	// the reverse lookup of an address.
	Permit   func(subject netip.Addr, name string, addr netip.Addr) policy.Decision
	Resolver Resolver
	// Records resolves other types than A for the subjects for which Open returns true. If
	// either is nil, no subject gets those.
	Records Records
	Open    func(subject netip.Addr) bool
	// Record is told of each query that is refused, and of each that is resolved. It must not block.
	Record func(Query)
}

// Resolver resolves names. They are absolute, without the last dot: search domains do not apply.
type Resolver interface {
	LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error)
}

// Records resolves other types than A. *net.Resolver implements it.
type Records interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	LookupAddr(ctx context.Context, addr string) ([]string, error)
}

// Query is a query that was answered.
type Query struct {
	Subject  netip.Addr
	Name     string
	Type     string // "A", "TXT"
	Decision policy.Decision
	Addrs    []netip.Addr // what the subject was told, unless the query was refused
	Error    string       // why an allowed name has no address
}

const (
	// maxQuery is the longest query that is read: a name has 255 bytes, and clients pad to 128.
	maxQuery = 1232
	// maxDatagram is the longest answer by UDP (DNS flag day 2020). Longer ones are truncated.
	maxDatagram = 1232
	// streamTimeout is how long a client has for each query and each answer by TCP.
	streamTimeout = 10 * time.Second
	// maxFailures ends a server whose socket only fails.
	maxFailures = 64
)

// Server is a DNS server that knows who asks.
type Server struct {
	Options
	queries, streams slots
	budgets          budgets
	lookups          lookups
	limited          atomic.Uint64
}

// NewServer returns a server.
func NewServer(o Options) *Server {
	return &Server{
		Options: o,
		queries: slots{all: queriesOfAll, each: queriesOfEach, users: map[netip.Addr]int{}},
		streams: slots{all: streamsOfAll, each: streamsOfEach, users: map[netip.Addr]int{}},
		budgets: budgets{subjects: map[netip.Addr]*budget{}},
		lookups: lookups{running: map[string]*lookup{}},
	}
}

// Limited returns how many queries were refused because a subject asked too much.
func (s *Server) Limited() uint64 { return s.limited.Load() }

// Forget drops what is known of a subject, in the table too.
func (s *Server) Forget(subject netip.Addr) {
	s.budgets.forget(subject)
	s.Table.Forget(subject)
}

// Serve answers datagrams and connections until the context ends or either socket fails. It closes
// both, and returns when all its goroutines have ended.
func (s *Server) Serve(ctx context.Context, datagrams net.PacketConn, streams net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, func() {
		_ = datagrams.Close()
		_ = streams.Close()
	})()
	var running sync.WaitGroup
	running.Go(func() { cancel(s.serveDatagrams(ctx, &running, datagrams)) })
	running.Go(func() { cancel(s.serveStreams(ctx, &running, streams)) })
	running.Wait()
	return context.Cause(ctx)
}

func (s *Server) serveDatagrams(ctx context.Context, running *sync.WaitGroup, c net.PacketConn) error {
	buffer := make([]byte, maxQuery+1)
	for failures := 0; ; {
		n, from, err := c.ReadFrom(buffer)
		if err != nil {
			if failures++; ctx.Err() != nil || failures > maxFailures {
				return err
			}
			continue
		}
		failures = 0
		who := subjectOf(from)
		query := buffer[:min(n, maxQuery)]
		if !s.queries.take(who) {
			s.limited.Add(1)
			if reply := busy(query); reply != nil {
				_, _ = c.WriteTo(reply, from)
			}
			continue
		}
		query = slices.Clone(query)
		running.Go(func() {
			defer s.queries.give(who)
			if reply := s.Answer(ctx, who, query, false); reply != nil {
				_, _ = c.WriteTo(reply, from)
			}
		})
	}
}

func (s *Server) serveStreams(ctx context.Context, running *sync.WaitGroup, l net.Listener) error {
	for failures := 0; ; {
		c, err := l.Accept()
		if err != nil {
			if failures++; ctx.Err() != nil || failures > maxFailures {
				return err
			}
			continue
		}
		failures = 0
		running.Go(func() { s.ServeStream(ctx, c) })
	}
}

// ServeStream answers the queries of one connection, one after the other, and closes it.
func (s *Server) ServeStream(ctx context.Context, c net.Conn) {
	defer c.Close()
	who := subjectOf(c.RemoteAddr())
	if !s.streams.take(who) {
		s.limited.Add(1)
		return
	}
	defer s.streams.give(who)
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	var length [2]byte
	buffer := make([]byte, maxQuery)
	for {
		_ = c.SetDeadline(time.Now().Add(streamTimeout))
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(length[:]))
		if n > maxQuery {
			return
		}
		if _, err := io.ReadFull(c, buffer[:n]); err != nil {
			return
		}
		reply := s.Answer(ctx, who, buffer[:n], true)
		if reply == nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(streamTimeout))
		if _, err := c.Write(slices.Concat(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply)); err != nil {
			return
		}
	}
}

// subjectOf returns the address of a peer.
func subjectOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
