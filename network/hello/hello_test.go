package hello_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"osaurus-sandbox/network/hello"
)

// tape is a connection that records what is written and then fails.
type tape struct {
	net.Conn
	bytes.Buffer
}

func (t *tape) Write(b []byte) (int, error) { return t.Buffer.Write(b) }
func (t *tape) Read([]byte) (int, error)    { return 0, io.EOF }

// clientHello returns the first flight of a real TLS client.
func clientHello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	var tp tape
	client := tls.Client(&tp, c)
	if err := client.HandshakeContext(context.Background()); err == nil {
		t.Fatal("a handshake without a server succeeded")
	}
	return tp.Bytes()
}

// split puts the handshake message of one record into records of n bytes.
func split(record []byte, n int) (out []byte) {
	for body := record[5:]; len(body) > 0; body = body[min(n, len(body)):] {
		part := body[:min(n, len(body))]
		out = append(out, 22, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// extensions returns a ClientHello with the given extensions.
func extensions(ext []byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	if ext != nil {
		body = binary.BigEndian.AppendUint16(body, uint16(len(ext)))
		body = append(body, ext...)
	}
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
}

func sni(names ...string) (ext []byte) {
	for _, n := range names {
		ext = append(ext, 0, 0, 0, byte(len(n)+5), 0, byte(len(n)+3), 0, 0, byte(len(n)))
		ext = append(ext, n...)
	}
	return ext
}

// echConfig returns a list of one ECH configuration with a public name.
func echConfig(t *testing.T, public string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := []byte{7, 0, 0x20, 0, 32} // id, X25519
	c = append(c, key.PublicKey().Bytes()...)
	c = append(c, 0, 4, 0, 1, 0, 1, 64, byte(len(public))) // HKDF-SHA256, AES-128-GCM
	c = append(append(c, public...), 0, 0)
	c = append([]byte{0xfe, 0x0d, 0, byte(len(c))}, c...)
	return append([]byte{0, byte(len(c))}, c...)
}

func TestSniffTLS(t *testing.T) {
	real := clientHello(t, &tls.Config{ServerName: "API.Example.org"})
	encrypted := clientHello(t, &tls.Config{
		ServerName: "secret.example.net", MinVersion: tls.VersionTLS13,
		EncryptedClientHelloConfigList: echConfig(t, "public.example.org"),
	})
	if bytes.Contains(encrypted, []byte("secret")) {
		t.Fatal("the hello is not encrypted")
	}
	wrongType := clientHello(t, &tls.Config{ServerName: "a.org"})
	wrongType[5] = 2
	for _, c := range []struct {
		name  string
		first []byte
		kind  hello.Kind
		want  string
	}{
		{"crypto/tls", real, hello.TLS, "api.example.org"},
		{"TLS 1.2", clientHello(t, &tls.Config{ServerName: "a.org", MaxVersion: tls.VersionTLS12}), hello.TLS, "a.org"},
		{"fragmented", split(real, 7), hello.TLS, "api.example.org"},
		{"a byte in each record", split(real, 1), hello.TLS, "api.example.org"},
		{"encrypted hello", encrypted, hello.TLS, "public.example.org"},
		{"address", clientHello(t, &tls.Config{ServerName: "192.0.2.1"}), hello.TLS, ""},
		{"no extensions", extensions(nil), hello.TLS, ""},
		{"no SNI", extensions([]byte{}), hello.TLS, ""},
		{"SNI", extensions(sni("A.org")), hello.TLS, "a.org"},
		{"SNI with a last dot", extensions(sni("a.org.")), hello.Invalid, ""}, // RFC 6066
		{"two SNIs", extensions(sni("a.org", "b.org")), hello.Invalid, ""},
		{"two names", extensions([]byte{0, 0, 0, 10, 0, 8, 0, 0, 1, 'a', 0, 0, 1, 'b'}), hello.Invalid, ""},
		{"empty name", extensions(sni("")), hello.Invalid, ""},
		{"zero in the name", extensions(sni("a.org\x00.b.org")), hello.Invalid, ""},
		{"name with a slash", extensions(sni("a.org/b")), hello.Invalid, ""},
		{"cut extension", extensions([]byte{0, 0, 0, 9}), hello.Invalid, ""},
		{"server hello", wrongType, hello.Invalid, ""},
		{"empty record", []byte{22, 3, 1, 0, 0}, hello.Invalid, ""},
		{"long record", []byte{22, 3, 1, 0xff, 0xff}, hello.Invalid, ""},
		{"long message", []byte{22, 3, 1, 0, 4, 1, 2, 0, 0}, hello.Invalid, ""},
		{"alert between", append(split(real, 9)[:14], 21, 3, 3, 0, 2, 2, 0), hello.Invalid, ""},
		{"other version", []byte{22, 2}, hello.Other, ""},
	} {
		kind, name, complete := hello.Sniff(c.first)
		if kind != c.kind || name != c.want || !complete {
			t.Errorf("%s: %s %q %v, want %s %q", c.name, kind, name, complete, c.kind, c.want)
		}
		if c.kind == hello.TLS {
			incomplete(t, c.name, c.first)
		}
	}
}

// incomplete checks that no beginning of first is taken for the whole.
func incomplete(t *testing.T, what string, first []byte) {
	t.Helper()
	for i := range first {
		if kind, name, complete := hello.Sniff(first[:i]); complete || name != "" {
			t.Fatalf("%s: %d of %d bytes are %s %q %v", what, i, len(first), kind, name, complete)
		}
	}
}

func TestSniffHTTP(t *testing.T) {
	for _, c := range []struct {
		first string
		kind  hello.Kind
		want  string
	}{
		{"GET / HTTP/1.1\r\nHost: Example.org\r\n\r\nrest", hello.HTTP, "example.org"},
		{"GET / HTTP/1.1\r\nA: b\r\nhOST:\texample.org.:8080 \r\nB: c\r\n\r\n", hello.HTTP, "example.org"},
		{"\r\n\nget / HTTP/1.1\r\nHost: a.org\r\n\r\n", hello.HTTP, "a.org"},
		{"GET / hTTp/1.1\r\nHost: a.org\r\n\r\n", hello.HTTP, "a.org"},
		{"GET / \xffHTTP/1.1\r\nHost: a.org\r\n\r\n", hello.Other, ""},
		{"GET / HTTP/1.0\n\n", hello.HTTP, ""},
		{"GET / HTTP/1.0\nHost: a.org\n\n", hello.HTTP, "a.org"},
		{"GET / HTTP/1.1\r\nHost:\r\n\r\n", hello.HTTP, ""},
		{"GET / HTTP/1.1\r\nHost: [::FFFF:10.0.0.1]:80\r\n\r\n", hello.HTTP, "10.0.0.1"},
		{"GET / HTTP/1.1\r\nHost: [2001:DB8::1]\r\n\r\n", hello.HTTP, "2001:db8::1"},
		{"GET http://a.org/x HTTP/1.1\r\nHost: a.org\r\n\r\n", hello.HTTP, "a.org"},
		{"GET http://a.org:80?x HTTP/1.1\r\n\r\n", hello.HTTP, "a.org"},
		{"CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\n", hello.HTTP, "a.org"},
		{"OPTIONS * HTTP/1.1\r\nHost: a.org\r\n\r\n", hello.HTTP, "a.org"},
		{"GET http://a.org/ HTTP/1.1\r\nHost: b.org\r\n\r\n", hello.Invalid, ""},
		{"GET http://u:p@a.org/ HTTP/1.1\r\n\r\n", hello.Invalid, ""},
		{"GET http:///x HTTP/1.1\r\n\r\n", hello.Invalid, ""},
		{"CONNECT a.org:443 HTTP/1.1\r\nHost: b.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nHost: a.org\r\nHost: a.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nHost: a.org\r\n b.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\n Host: a.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nHost : a.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nHost: a.org, b.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nHost: a.org:80x\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nA: b\rHost: b.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nA: b\nHost: a.org\n\nB: c\r\nHost: b.org\r\n\r\n", hello.Invalid, ""},
		{"GET / HTTP/1.1\r\nHost\r\n\r\n", hello.Invalid, ""},
		{"GET / x HTTP/1.1\r\nHost: a.org\r\n\r\n", hello.Invalid, ""},
		{"GET\t/\tHTTP/1.1\r\nHost: a.org\r\n\r\n", hello.HTTP, "a.org"},
		{"GET a.org HTTP/1.1\r\n\r\n", hello.Invalid, ""},
		{"GET HTTP/1.1\r\n\r\n", hello.Invalid, ""},
		{"EHLO example.org\r\n", hello.Other, ""},
		{"PING\r\n", hello.Other, ""},
		{"\x00\x00\x00\x08\x04\xd2\x16\x2f", hello.Other, ""},
		{"AMQP\x00\x00\x09\x01", hello.Other, ""},
		{strings.Repeat("A", 100) + " / HTTP/1.1\r\nHost: a.org\r\n\r\n", hello.HTTP, "a.org"}, // nginx has no limit
		{strings.Repeat("A", hello.MaxFirst), hello.Invalid, ""},
		{"SSH-2.0-OpenSSH_9.2p1\r\n", hello.SSH, ""},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00", hello.HTTP2, ""},
		{"GET / HTTP/1.1\r\nA: " + strings.Repeat("a", hello.MaxFirst), hello.Invalid, ""},
	} {
		kind, name, complete := hello.Sniff([]byte(c.first))
		if kind != c.kind || name != c.want || !complete {
			t.Errorf("%.60q: %s %q %v, want %s %q", c.first, kind, name, complete, c.kind, c.want)
		}
		if end := strings.Index(c.first, "\r\n\r\n"); c.kind == hello.HTTP && end > 0 {
			incomplete(t, c.first, []byte(c.first[:end+4]))
		}
	}
	incomplete(t, "HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	incomplete(t, "SSH", []byte("SSH-"))
}

// What net/http sends and what its server reads are the same host.
func FuzzSniff(f *testing.F) {
	f.Add([]byte("GET http://a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\nHost: [::1]:80\n\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Add(extensions(sni("a.org")))
	f.Add(split(extensions(sni("a.org")), 3))
	short, _ := hex.DecodeString("160301")
	f.Add(short)
	f.Fuzz(func(t *testing.T, first []byte) {
		kind, name, complete := hello.Sniff(first)
		if name != "" && (!complete || kind != hello.TLS && kind != hello.HTTP) {
			t.Errorf("%s %q %v", kind, name, complete)
		}
		if len(first) >= hello.MaxFirst && !complete {
			t.Error("no end")
		}
		if complete && kind != hello.Invalid && len(first) < 1000 { // more bytes change nothing
			if k, n, c := hello.Sniff(append(bytes.Clone(first), "x\r\n"...)); k != kind || n != name || !c {
				t.Errorf("%s %q became %s %q %v", kind, name, k, n, c)
			}
		}
		switch r, err := readRequest(first); {
		case kind == hello.HTTP && complete && err == nil && r != name:
			t.Errorf("the host is %q, net/http has %q", name, r)
		case kind == hello.Other && complete && err == nil:
			t.Errorf("net/http reads a request to %q", r)
		}
	})
}
