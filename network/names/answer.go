package names

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network/policy"
)

const (
	// answerTTL bounds TTLs, so that rooms notice new rules.
	answerTTL = time.Minute
	// recordTTL is the TTL of records other than A. The system's resolver does not return theirs.
	recordTTL = time.Minute
	// heldTTL is short: the real address follows once a person allows the name.
	heldTTL = 5 * time.Second
	// maxAddresses bounds what a name may put into the table at once.
	maxAddresses = 64
	headerLen    = 12
	maxExtra     = 2 // OPT and TSIG
	// maxReason is the longest reason in an answer, so that it always fits into a datagram.
	maxReason = 200
)

// reply is what a query is answered with.
type reply struct {
	rcode   int
	records []dns.RR // without names
	reason  string   // why the query was refused, or could not be answered
}

// Answer returns the answer to a query, or nil if there is none.
func (s *Server) Answer(ctx context.Context, who netip.Addr, query []byte, stream bool) []byte {
	q := new(dns.Msg)
	err := q.Unpack(query)
	if len(query) < headerLen || q.Response {
		return nil
	}
	m, r := new(dns.Msg).SetReply(q), reply{}
	m.RecursionAvailable = true
	opt := q.IsEdns0()
	switch {
	case q.Opcode != dns.OpcodeQuery:
		r.rcode = dns.RcodeNotImplemented
	case err != nil || len(q.Question) != 1 || len(q.Answer)+len(q.Ns) > 0 || len(q.Extra) > maxExtra:
		r.rcode = dns.RcodeFormatError
	case opt != nil && opt.Version() != 0:
		r.rcode = dns.RcodeBadVers
	case q.Question[0].Qclass != dns.ClassINET, q.Question[0].Qtype == dns.TypeAXFR, q.Question[0].Qtype == dns.TypeIXFR:
		r.rcode = dns.RcodeRefused
	default:
		r = s.resolve(ctx, who, strings.ToLower(strings.TrimSuffix(q.Question[0].Name, ".")), q.Question[0].Qtype)
	}
	m.Rcode = r.rcode
	for _, rr := range r.records {
		rr = dns.Copy(rr) // callers of a joined lookup share it
		rr.Header().Name = q.Question[0].Name
		m.Answer = append(m.Answer, rr)
	}
	size := dns.MinMsgSize
	if opt != nil {
		size = min(max(int(opt.UDPSize()), dns.MinMsgSize), maxDatagram)
		m.Extra = append(m.Extra, options(r.reason))
	}
	if stream {
		size = dns.MaxMsgSize - 1
	}
	m.Truncate(size)
	packed, err := m.Pack()
	if err != nil {
		packed, _ = (&dns.Msg{MsgHdr: dns.MsgHdr{Id: q.Id, Response: true, Rcode: dns.RcodeServerFailure}}).Pack()
	}
	return packed
}

// options returns an OPT record, with an extended error (RFC 8914) if there is a reason.
func options(reason string) dns.RR {
	o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	o.SetUDPSize(maxDatagram)
	if reason != "" {
		reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
		o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: reason})
	}
	return o
}

// resolve answers a question about a name in lower case.
func (s *Server) resolve(ctx context.Context, who netip.Addr, name string, kind uint16) reply {
	switch {
	case name == "":
		return reply{}
	case !valid(name), config.EndsInNumber(name), kind == dns.TypePTR && strings.HasSuffix(name, ".arpa"): // addresses have no names here
		return reply{rcode: dns.RcodeNameError}
	case name == "localhost", strings.HasSuffix(name, ".localhost"): // the room's own (RFC 6761)
		if kind == dns.TypeA {
			return addresses([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, answerTTL)
		}
		return reply{}
	}
	q := Query{Subject: who, Name: name, Type: dns.Type(kind).String(), Decision: s.Decide(who, name)}
	switch {
	case q.Decision.Action != policy.Allow:
		return s.refuse(q, kind)
	case q.Decision.Rule == nil && (!strings.Contains(name, ".") || strings.HasSuffix(name, ".local")):
		// Only local networks have such names, and those are closed without a rule.
		return reply{rcode: dns.RcodeNameError, reason: "names of local networks need a rule"}
	case kind == dns.TypeA:
		return s.address(ctx, q)
	case kind != dns.TypeTXT && kind != dns.TypeMX && kind != dns.TypeSRV, s.Records == nil, s.Open == nil, !s.Open(who):
		// No IPv6, and no HTTPS records: those would lead to ECH and HTTP/3, which hide names.
		return reply{}
	}
	if reason := s.Budget(who).spend(name, true); reason != "" {
		return s.limit(q, reason)
	}
	result := s.join(ctx, q.Type+" "+name, func(ctx context.Context) result { return records(ctx, s.Records, kind, name) })
	if result.err != nil {
		return s.fail(q, result.err)
	}
	s.record(q)
	return reply{records: result.records}
}

// address resolves a name that is allowed.
func (s *Server) address(ctx context.Context, q Query) reply {
	if !s.Table.Knows(q.Subject, q.Name) {
		if reason := s.Budget(q.Subject).spend(q.Name, true); reason != "" {
			return s.limit(q, reason)
		}
	}
	result := s.join(ctx, q.Name, func(ctx context.Context) (r result) {
		r.addrs, r.ttl, r.err = s.Resolver.LookupNetIP(ctx, q.Name)
		return r
	})
	if errors.Is(result.err, ErrByProxy) {
		s.record(q)
		return addresses([]netip.Addr{s.Table.Hold(q.Subject, q.Name)}, heldTTL)
	}
	if result.err != nil {
		return s.fail(q, result.err)
	}
	refused := policy.Decision{}
	for _, a := range result.addrs {
		if a = a.Unmap(); !a.Is4() || len(q.Addrs) >= maxAddresses || slices.Contains(q.Addrs, a) {
			continue
		}
		if d := s.Permit(q.Subject, q.Name, a); d.Action == policy.Allow {
			q.Addrs = append(q.Addrs, a)
		} else {
			refused = d
		}
	}
	if len(q.Addrs) == 0 && refused.Action != "" {
		q.Decision = refused
		return s.refuse(q, dns.TypeA)
	}
	if len(q.Addrs) == 0 {
		q.Error = "the name has no IPv4 address"
	}
	s.Table.Remember(q.Subject, q.Name, q.Addrs, result.ttl)
	s.record(q)
	return addresses(q.Addrs, min(result.ttl, answerTTL))
}

// refuse answers a query with an address that stands for the name, so that nothing leaves and the
// connection can say why it is refused.
func (s *Server) refuse(q Query, kind uint16) reply {
	if !s.Table.Knows(q.Subject, q.Name) {
		if reason := s.Budget(q.Subject).spend(q.Name, false); reason != "" {
			return s.limit(q, reason)
		}
	}
	s.record(q)
	r := reply{}
	if kind == dns.TypeA {
		r = addresses([]netip.Addr{s.Table.Hold(q.Subject, q.Name)}, heldTTL)
	}
	r.reason = q.Decision.Reason
	return r
}

func (s *Server) limit(q Query, reason string) reply {
	q.Decision = policy.Decision{Action: policy.Deny, Reason: reason}
	s.record(q)
	return reply{rcode: dns.RcodeRefused, reason: reason}
}

func (s *Server) fail(q Query, err error) reply {
	if notFound(err) {
		q.Error = "the name does not exist"
		s.record(q)
		return reply{rcode: dns.RcodeNameError}
	}
	q.Error = "the resolver of this computer did not answer"
	s.record(q)
	return reply{rcode: dns.RcodeServerFailure}
}

func (s *Server) record(q Query) {
	if s.Record != nil {
		s.Record(q)
	}
}

func addresses(addrs []netip.Addr, ttl time.Duration) (r reply) {
	for _, a := range addrs {
		header := dns.RR_Header{Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: seconds(ttl)}
		r.records = append(r.records, &dns.A{Hdr: header, A: a.AsSlice()})
	}
	return r
}

func seconds(d time.Duration) uint32 { return uint32(max(d, 0) / time.Second) }

// valid reports whether a name has only characters of host names and of service labels.
func valid(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}
