package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// lookupTimeout ends before resolvers in rooms ask again, which is after 5 s.
const lookupTimeout = 4 * time.Second

// result is what the outside says of a name.
type result struct {
	addrs   []netip.Addr
	records []dns.RR // without names
	ttl     time.Duration
	err     error
}

// lookups joins equal lookups that run at the same time.
type lookups struct {
	mu      sync.Mutex
	running map[string]*lookup
}

type lookup struct {
	done   chan struct{}
	result result
}

// do returns the result of f, or that of another caller's f for the same key. If that caller has
// left, f is called after all.
func (l *lookups) do(ctx context.Context, key string, f func(context.Context) result) result {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for {
		l.mu.Lock()
		other := l.running[key]
		if other == nil {
			break
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return result{err: ctx.Err()}
		case <-other.done:
		}
		if !errors.Is(other.result.err, context.Canceled) || ctx.Err() != nil {
			return other.result
		}
	}
	own := &lookup{done: make(chan struct{}), result: result{err: context.Canceled}}
	l.running[key] = own
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.running, key)
		l.mu.Unlock()
		close(own.done)
	}()
	own.result = f(ctx)
	return own.result
}

// records resolves a type other than A. It returns nothing for a type that it does not know.
func records(ctx context.Context, r Records, kind uint16, name string) result {
	var out result
	header := func() dns.RR_Header {
		return dns.RR_Header{Rrtype: kind, Class: dns.ClassINET, Ttl: seconds(recordTTL)}
	}
	switch kind {
	case dns.TypeTXT:
		var texts []string
		texts, out.err = r.LookupTXT(ctx, name+".")
		for _, text := range texts {
			var parts []string
			for ; len(text) > maxText; text = text[maxText:] {
				parts = append(parts, escape(text[:maxText]))
			}
			out.records = append(out.records, &dns.TXT{Hdr: header(), Txt: append(parts, escape(text))})
		}
	case dns.TypeMX:
		var hosts []*net.MX
		hosts, out.err = r.LookupMX(ctx, name+".")
		for _, h := range hosts {
			out.records = append(out.records, &dns.MX{Hdr: header(), Preference: h.Pref, Mx: dns.Fqdn(h.Host)})
		}
	case dns.TypeSRV:
		var hosts []*net.SRV
		_, hosts, out.err = r.LookupSRV(ctx, "", "", name+".")
		for _, h := range hosts {
			out.records = append(out.records, &dns.SRV{Hdr: header(), Priority: h.Priority, Weight: h.Weight, Port: h.Port, Target: dns.Fqdn(h.Target)})
		}
	}
	return out
}

// maxText is the longest string in a TXT record.
const maxText = 255

// escape returns text in the form in which package dns has the strings of TXT records.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
}

// notFound reports whether an error says that a name does not exist, or has no such record.
func notFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}
