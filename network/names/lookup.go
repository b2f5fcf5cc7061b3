package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
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

// join returns the result of f, or that of another caller's f for the same key that runs. It goes on if
// its caller leaves, for others.
func (s *Server) join(ctx context.Context, key string, f func(context.Context) result) result {
	done := s.lookups.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return f(ctx), nil
	})
	select {
	case <-ctx.Done():
		return result{err: ctx.Err()}
	case r := <-done:
		return r.Val.(result)
	}
}

// records resolves a type other than A. It returns nothing for a type that it does not know.
func records(ctx context.Context, r Records, kind uint16, name string) result {
	var out result
	header := func() dns.RR_Header {
		return dns.RR_Header{Rrtype: kind, Class: dns.ClassINET, Ttl: seconds(recordTTL)}
	}
	switch kind {
	case dns.TypeTXT:
		escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`) // as package dns has it
		var texts []string
		texts, out.err = r.LookupTXT(ctx, name+".")
		for _, text := range texts {
			var parts []string
			for ; len(text) > maxText; text = text[maxText:] {
				parts = append(parts, escape.Replace(text[:maxText]))
			}
			out.records = append(out.records, &dns.TXT{Hdr: header(), Txt: append(parts, escape.Replace(text))})
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

// notFound reports whether an error says that a name does not exist, or has no such record.
func notFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}
