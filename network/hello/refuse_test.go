package hello_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network/hello"
)

const text = "api.example.org is not allowed (rule: deny *.example.org).\nTo change it: osaurus-sandbox network allow NAME api.example.org"

// readRequest returns the host of a request as net/http reads it.
func readRequest(b []byte) (string, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return "", err
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		host = a.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), nil
}

// patientConn has no deadlines: a client that gets no processor for a second is still heard.
type patientConn struct{ *net.TCPConn }

func (patientConn) SetDeadline(time.Time) error     { return nil }
func (patientConn) SetReadDeadline(time.Time) error { return nil }

// serve refuses each connection of a listener once it is recognized, and sends what it was.
func serve(t *testing.T, size int) (address string, seen <-chan hello.Kind) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(chan hello.Kind, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var first []byte
			for {
				kind, _, complete := hello.Sniff(first)
				if complete {
					kinds <- kind
					hello.Refuse(patientConn{c.(*net.TCPConn)}, kind, text)
					break
				}
				part := make([]byte, size)
				n, err := c.Read(part)
				first = append(first, part[:n]...)
				if err != nil {
					_ = c.Close()
					break
				}
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), kinds
}

func TestRefuseHTTP(t *testing.T) {
	timetest.NoLeaks(t)
	address, seen := serve(t, 16)
	client := &http.Client{Timeout: timetest.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	// The second request has a body that is under way when the refusal is sent.
	for _, body := range []string{"", strings.Repeat("a", 200_000)} {
		r, err := client.Post("http://"+address, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != 403 || string(page) != text+"\n" || err != nil || <-seen != hello.HTTP {
			t.Errorf("%s %q %v", r.Status, page, err)
		}
		if want := "403 api.example.org is not allowed (rule: deny *.example.org)."; r.Status != want {
			t.Errorf("the status is %q, want %q", r.Status, want)
		}
	}
}

func TestRefuseTLS(t *testing.T) {
	timetest.NoLeaks(t)
	address, seen := serve(t, 16)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		d := &tls.Dialer{Config: &tls.Config{ServerName: "api.example.org", MinVersion: version, MaxVersion: version}}
		_, err := d.Dial("tcp", address)
		alert, ok := errors.AsType[tls.AlertError](err)
		if operation, is := errors.AsType[*net.OpError](err); !ok && is {
			ok = strings.Contains(operation.Error(), "access denied")
		}
		if !ok || <-seen != hello.TLS {
			t.Errorf("%v (%v), want the alert access denied", err, alert)
		}
	}
}

func TestRefuseSSH(t *testing.T) {
	for n := range 20 { // each length of padding
		client, server := net.Pipe()
		_ = client.SetDeadline(time.Now().Add(timetest.Limit))
		want := text + strings.Repeat("x", n)
		go hello.Refuse(server, hello.SSH, want)
		r := bufio.NewReader(client)
		version, _ := r.ReadString('\n')
		var size [4]byte
		_, _ = io.ReadFull(r, size[:])
		packet := make([]byte, binary.BigEndian.Uint32(size[:]))
		_, err := io.ReadFull(r, packet)
		if version != "SSH-2.0-Gateway\r\n" || err != nil || (len(packet)+4)%8 != 0 || packet[0] < 4 {
			t.Fatalf("%q, a packet of %d bytes, %v", version, len(packet), err)
		}
		payload := packet[1 : len(packet)-int(packet[0])]
		if code := payload[0]; code != 1 || string(payload[9:len(payload)-4]) != want {
			t.Errorf("message %d: %q", code, payload)
		}
		_ = client.Close()
	}
}

// A text with the guest's bytes adds no header.
func TestRefuseKeepsToOneStatusLine(t *testing.T) {
	client, server := net.Pipe()
	go hello.Refuse(server, hello.HTTP, "no\rSet-Cookie: a\x00é"+strings.Repeat("x", 500)+"\nb")
	_ = client.SetDeadline(time.Now().Add(timetest.Limit))
	status, err := bufio.NewReader(client).ReadString('\n')
	if err != nil || strings.ContainsAny(strings.TrimSuffix(status, "\r\n"), "\r\x00é") || len(status) > 200 {
		t.Errorf("%q %v", status, err)
	}
	_ = client.Close()
}

// A client that never stops sending is cut off.
func TestRefuseEnds(t *testing.T) {
	timetest.NoLeaks(t)
	for _, kind := range []hello.Kind{hello.HTTP, hello.TLS, hello.Other, hello.SSH, hello.HTTP2, hello.Invalid} {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() { hello.Refuse(server, kind, text); close(done) }()
		go func() {
			_, _ = io.ReadFull(client, make([]byte, 1))
			_, _ = io.Copy(client, zeros{})
		}()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		select {
		case <-done:
		case <-time.After(timetest.Limit):
			t.Fatalf("%s: still open", kind)
		}
		_ = client.Close()
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
