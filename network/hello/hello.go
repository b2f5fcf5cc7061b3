// Package hello recognizes a connection by its first bytes, and refuses it in the client's protocol.
package hello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
)

// Kind is what a client speaks.
type Kind string

const (
	TLS   Kind = "tls"   // the name is the SNI: with an encrypted hello, the outer one
	HTTP  Kind = "http"  // HTTP/1: the name is that of the first request
	HTTP2 Kind = "http2" // HTTP/2 without TLS: its name is compressed, so there is none here
	SSH   Kind = "ssh"
	Other Kind = "other"
	// Invalid is TLS or HTTP that servers may read in different ways, or that is too long.
	Invalid Kind = "invalid"
)

// MaxFirst is how many bytes Sniff needs at most: those of the largest TLS record, and as many as
// common servers take for the header of a request.
const MaxFirst = 16384 + 5

const (
	recordHandshake = 22
	maxName         = 253 // of a host
	blanks          = " \t\v\f\r"
	preface         = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// Sniff says what a client speaks from the first bytes that it sent, and the host that it asks for:
// in lower case, without port and last dot, or empty. Until complete is true it needs more bytes.
// What the server sends may flow meanwhile: of some protocols, the server speaks first.
func Sniff(first []byte) (kind Kind, name string, complete bool) {
	switch {
	case len(first) == 0:
		return Other, "", false
	case first[0] == recordHandshake:
		if len(first) > 1 && first[1] != 3 {
			return Other, "", true
		}
		kind, name, complete = sniffTLS(first)
	case hasPrefix(first, preface) && len(first) > len("PRI"):
		return HTTP2, "", len(first) >= len(preface)
	case hasPrefix(first, "SSH-"):
		return SSH, "", len(first) >= len("SSH-")
	default:
		kind, name, complete = sniffHTTP(first)
	}
	if !complete && len(first) >= MaxFirst {
		return Invalid, "", true
	}
	return kind, name, complete
}

// hasPrefix reports whether one of b and prefix begins with the other.
func hasPrefix(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

// sniffHTTP reads the header of an HTTP/1 request. Servers take methods of any case, empty lines
// before a request, and some take more kinds of white space than the standard has.
func sniffHTTP(b []byte) (Kind, string, bool) {
	line, rest, whole := bytes.Cut(bytes.TrimLeft(b, "\r\n"), []byte("\n"))
	space := bytes.IndexAny(line, blanks)
	if space < 0 {
		space = len(line)
	}
	method := line[:space]
	if !isToken(method) || bytes.IndexByte(line, 0) >= 0 { // git's own protocol has zeros
		return Other, "", true
	}
	if !whole {
		return HTTP, "", false
	}
	line, crlf := bytes.CutSuffix(line[space:], []byte("\r"))
	version := len(line) - len("HTTP/")
	for version > 0 && !bytes.EqualFold(line[version:version+len("HTTP/")], []byte("HTTP/")) {
		version-- // some servers take it in lower case
	}
	if version < 1 || !bytes.ContainsAny(line[version-1:version], blanks) {
		return Other, "", true
	}
	target := line[1 : max(version, 2)-1]
	if bytes.ContainsAny(target, blanks) {
		return Invalid, "", true
	}
	host, hosts := "", 0
	for {
		line, rest, whole = bytes.Cut(rest, []byte("\n"))
		if !whole {
			return HTTP, "", false
		}
		ended := false
		if line, ended = bytes.CutSuffix(line, []byte("\r")); ended != crlf {
			return Invalid, "", true // servers differ on where such a line ends
		}
		if len(line) == 0 {
			break
		}
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(key) == 0 || !isToken(key) || bytes.ContainsAny(value, "\r\x00") {
			return Invalid, "", true // a continued line too: its key would start with a space
		}
		if strings.EqualFold(string(key), "host") {
			host, ok = hostOf(string(bytes.Trim(value, " \t")))
			if hosts++; hosts > 1 || !ok {
				return Invalid, "", true
			}
		}
	}
	named, ok := targetHost(string(method), string(target))
	if !ok || named != "" && hosts > 0 && named != host {
		return Invalid, "", true
	}
	if named != "" {
		host = named
	}
	return HTTP, host, true
}

// targetHost returns the host in the target of a request, or nothing if the target is a path.
func targetHost(method, target string) (string, bool) {
	if method == "CONNECT" {
		return hostOf(target)
	}
	scheme, rest, absolute := strings.Cut(target, "://")
	if !absolute || strings.HasPrefix(target, "/") || strings.ContainsAny(scheme, "/?#") {
		return "", strings.HasPrefix(target, "/") || target == "*"
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host, ok := hostOf(rest)
	return host, ok && host != ""
}

// hostOf returns the host of "host:port". User names are not accepted.
func hostOf(authority string) (string, bool) {
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
	}
	if strings.Trim(port, "0123456789") != "" {
		return "", false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return a.Unmap().String(), err == nil && strings.HasSuffix(inner, "]") && a.Zone() == ""
	}
	return canonical(host)
}

// canonical returns a host's name in lower case without its last dot.
func canonical(host string) (string, bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	bad := strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
	return host, !bad && len(host) <= maxName
}

// isToken reports whether b has only characters of methods and of names of header fields.
func isToken(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return true
}

// errSeen ends a handshake when its ClientHello was read.
var errSeen = errors.New("the hello was seen")

// sniffTLS reads a ClientHello, which may lie in several records.
func sniffTLS(b []byte) (Kind, string, bool) {
	first, name, seen := &firstBytes{rest: b}, "", false
	_ = tls.Server(first, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, seen = hello.ServerName, true
		return nil, errSeen
	}}).Handshake()
	if first.used && !seen {
		return TLS, "", false
	}
	name, ok := canonical(name)
	if !seen || !ok {
		return Invalid, "", true
	}
	return TLS, name, true
}

// firstBytes is a connection that returns known bytes and then ends. It discards what is written.
type firstBytes struct {
	net.Conn
	rest []byte
	used bool // a read found no more bytes
}

func (f *firstBytes) Read(p []byte) (int, error) {
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; n == 0 {
		f.used = true
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (f *firstBytes) Write(p []byte) (int, error) { return len(p), nil }
