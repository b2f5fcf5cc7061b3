//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// probePatience is more than an answer takes on a busy computer.
const probePatience = 90 * time.Second

// probe runs the attempts that its input lists, one a line, and prints a line for each.
func probe([]string) {
	attempts := map[string]func([]string) (string, error){
		"tcp": probeTCP, "stay": probeStay, "mapped": probeMapped, "udp": probeUDP, "http": probeHTTP, "http2": probeHTTP2, "tls": probeTLS, "ech": probeECH, "send": probeSend, "from": probeFrom, "dns": probeDNS, "tunnel": probeTunnel, "ping": probePing,
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || attempts[words[0]] == nil {
			fmt.Printf("%q is no attempt\n", lines.Text())
			continue
		}
		said, err := attempts[words[0]](words[1:])
		if err != nil {
			said = strings.TrimSpace(said + " " + reason(err))
		}
		fmt.Println(strings.Join(strings.Fields(said), " "))
	}
}

// reason returns the part of an error that does not depend on addresses.
func reason(err error) string {
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return name.Err
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	return err.Error()
}

// probeTCP ADDRESS connects and prints what the server says first.
func probeTCP(args []string) (string, error) {
	c, err := net.DialTimeout("tcp", args[0], probePatience)
	if err != nil {
		return "", err
	}
	return greeting(c)
}

func greeting(c net.Conn) (string, error) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(probePatience))
	line, err := bufio.NewReader(c).ReadString('\n')
	return "connected: " + line, err
}

// probeStay ADDRESS connects, and prints when the other end ends the connection.
func probeStay(args []string) (string, error) {
	c, err := net.DialTimeout("tcp", args[0], probePatience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(probePatience))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", err
	}
	fmt.Print("connected: ", line)
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return "", err
	}
	return "ended", nil
}

// probeMapped ADDRESS connects a socket of IPv6 to an IPv4 address.
func probeMapped(args []string) (string, error) {
	to, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return "", err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}); err != nil {
		return "", err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return "", err
	}
	return greeting(c)
}

// probeUDP ADDRESS sends a datagram and prints the answer.
func probeUDP(args []string) (string, error) {
	c, err := net.Dial("udp", args[0])
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(probePatience))
	if _, err := c.Write([]byte("ping")); err != nil {
		return "", err
	}
	b := make([]byte, 512)
	n, err := c.Read(b)
	return "answered: " + string(b[:n]), err
}

// probePing ADDRESS sends an echo request.
func probePing(args []string) (string, error) {
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return "", err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		return "", err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		return "", err
	}
	wait := unix.NsecToTimeval(int64(probePatience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, []byte{8, 0, 0, 0, 0, 0, 0, 1}); err != nil {
		return "", err
	}
	_, err = unix.Read(fd, make([]byte, 512))
	return "echo", err
}

// probeHTTP URL [METHOD [HOST]] asks for a page and prints its status and text. It follows
// redirects.
func probeHTTP(args []string) (string, error) { return askFor(args, nil) }

// probeHTTP2 is probeHTTP by HTTP/2, also without TLS.
func probeHTTP2(args []string) (string, error) {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return askFor(args, p)
}

func askFor(args []string, p *http.Protocols) (string, error) {
	method, host := http.MethodGet, ""
	if len(args) > 1 {
		method = args[1]
	}
	if len(args) > 2 {
		host = args[2]
	}
	r, err := http.NewRequest(method, args[0], nil)
	if err != nil {
		return "", err
	}
	r.Host = host
	client := &http.Client{Timeout: probePatience, Transport: &http.Transport{
		DisableKeepAlives: true, Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	answer, err := client.Do(r)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return "", wrapped.Err
	}
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.Status + " | " + string(body), err
}

// get HEADING URL... prints what Go's client says of each URL.
func get(args []string) {
	for _, url := range args[1:] {
		fmt.Println(args[0], url)
		answer, err := http.Get(url)
		if err != nil {
			fmt.Println(err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		fmt.Print(answer.Status, "\n", string(body))
	}
}

// probeTLS ADDRESS SNI secures a connection and prints what the server says. Without a name, SNI
// is "-".
func probeTLS(args []string) (string, error) {
	c, err := net.DialTimeout("tcp", args[0], probePatience)
	if err != nil {
		return "", err
	}
	return greeting(tls.Client(c, &tls.Config{ServerName: strings.TrimPrefix(args[1], "-"), InsecureSkipVerify: true}))
}

// probeECH ADDRESS OUTER INNER secures a connection with an encrypted hello.
func probeECH(args []string) (string, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	config := append([]byte{7, 0, 0x20, 0, 32}, key.PublicKey().Bytes()...)
	config = append(config, 0, 4, 0, 1, 0, 1, 64, byte(len(args[1]))) // HKDF-SHA256, AES-128-GCM
	config = append(append(config, args[1]...), 0, 0)
	config = append([]byte{0, byte(len(config) + 4), 0xfe, 0x0d, 0, byte(len(config))}, config...)
	c, err := net.DialTimeout("tcp", args[0], probePatience)
	if err != nil {
		return "", err
	}
	return greeting(tls.Client(c, &tls.Config{
		ServerName: args[2], EncryptedClientHelloConfigList: config, MinVersion: tls.VersionTLS13,
		EncryptedClientHelloRejectionVerify: func(tls.ConnectionState) error { return nil },
	}))
}

// probeSend ADDRESS TEXT sends a text, quoted as in a URL, and prints the first line of the answer.
func probeSend(args []string) (string, error) {
	text, err := url.QueryUnescape(args[1])
	if err != nil {
		return "", err
	}
	c, err := net.DialTimeout("tcp", args[0], probePatience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(probePatience))
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// probeFrom SOURCE ADDRESS connects from an address that is not the room's own.
func probeFrom(args []string) (string, error) {
	var refused error
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(args[0])}, Timeout: probePatience, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			refused = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1), unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1))
		})
	}}
	c, err := d.Dial("tcp", args[1])
	if err == nil {
		return greeting(c)
	}
	return fmt.Sprintf("%v,", refused), err
}

// probeDNS NETWORK SERVER NAME TYPE asks a name server, and prints the answer and why it refuses.
func probeDNS(args []string) (string, error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(args[2]), dns.StringToType[args[3]])
	q.SetEdns0(1232, false)
	a, err := query(args[0], args[1], q)
	if err != nil {
		return "", err
	}
	said := []string{dns.RcodeToString[a.Rcode]}
	for _, rr := range a.Answer {
		said = append(said, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	if opt := a.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				said = append(said, fmt.Sprintf("(%d %s)", e.InfoCode, e.ExtraText))
			}
		}
	}
	return strings.Join(said, " "), nil
}

// query asks again if a datagram is lost.
func query(network, server string, q *dns.Msg) (a *dns.Msg, err error) {
	client := dns.Client{Net: network, Timeout: probePatience / 6}
	for range 6 {
		if a, _, err = client.Exchange(q, server); err == nil {
			return a, nil
		}
		if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
			return nil, err
		}
	}
	return nil, err
}

// probeTunnel SERVER DOMAIN COUNT asks for long names, and prints how many are answered.
func probeTunnel(args []string) (string, error) {
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return "", err
	}
	answered := 0
	var mu sync.Mutex
	var running sync.WaitGroup
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	const workers = 8
	for w := range workers {
		running.Go(func() {
			for i := w; i < count && ctx.Err() == nil; i += workers {
				name := fmt.Sprintf("%s%04d.%s", strings.Repeat("x", 50), i, args[1])
				a, err := query("udp", args[0], new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA))
				if err != nil {
					cancel(err)
					return
				}
				if a.Rcode != dns.RcodeRefused {
					mu.Lock()
					answered++
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	return fmt.Sprintf("answered %d of %d", answered, count), context.Cause(ctx)
}
