package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"

	"osaurus-sandbox/network/policy"
)

// Options configure a server. A subject is the address of a room.
type Options struct {
	Table *Table
	// Decide decides whether a subject may resolve a name. It must be fast.
	Decide func(subject netip.Addr, name string) policy.Decision
	// Permit decides whether a subject may be told an address for a name.
	Permit   func(subject netip.Addr, name string, addr netip.Addr) policy.Decision
	Resolver Resolver
	// Records resolves other types than A for the subjects for which Open returns true. If
	// either is nil, no subject gets those.
	Records Records
	Open    func(subject netip.Addr) bool
	// Budget returns what bounds a subject's new names, or nil for one that is gone.
	Budget func(subject netip.Addr) *Budget
	// Record is called for each query that is refused or resolved. It must not block.
	Record func(Query)
}

// Resolver resolves names. They are absolute, without the last dot: search domains do not apply.
type Resolver interface {
	LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error)
}

// ErrByProxy is the error of a Resolver that does not resolve a name, but can connect to it.
var ErrByProxy = errors.New("the proxy resolves this name")

// Records resolves other types than A. *net.Resolver implements it.
type Records interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
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
	// MaxQuery is the longest query that is read: a name has 255 bytes, and clients pad to 128.
	MaxQuery = 1232
	// maxDatagram is the longest answer by UDP (DNS flag day 2020). Longer ones are truncated.
	maxDatagram = 1232
	// streamTimeout is how long a client has for each query and each answer by TCP.
	streamTimeout = 10 * time.Second
)

// Server is a DNS server that knows who asks. Its caller bounds how many queries and connections
// of a subject it serves at once, so that slow answers to one stop no others.
type Server struct {
	Options
	lookups singleflight.Group
}

// NewServer returns a server.
func NewServer(o Options) *Server {
	return &Server{Options: o}
}

// ServeStream answers the queries of one connection, one after the other, and closes it.
func (s *Server) ServeStream(ctx context.Context, c net.Conn) {
	defer c.Close()
	who := netip.Addr{}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		who = a.AddrPort().Addr().Unmap()
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	stream, buffer := dns.Conn{Conn: c}, make([]byte, MaxQuery)
	for {
		_ = c.SetDeadline(time.Now().Add(streamTimeout))
		n, err := stream.Read(buffer)
		if err != nil {
			return
		}
		reply := s.Answer(ctx, who, buffer[:n], true)
		if reply == nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(streamTimeout))
		if _, err := stream.Write(reply); err != nil {
			return
		}
	}
}
