package control

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/fault/faultrpc"
)

const (
	tokenName = "api-token"
	// minToken is the least that is taken for a secret: rand.Text's length.
	minToken = 26
	maxToken = 1 << 10
)

// TCP is a listener for apps that cannot use Unix sockets.
type TCP struct {
	// Address is where it listens: "127.0.0.1:8137".
	Address string
	// Exposed allows an address that other computers can reach. What they see
	// is not encrypted: the token is for whoever can read the network.
	Exposed bool
	// Hosts are further names that a request may have in its Host header.
	Hosts []string
	// Origins are the web pages that may call: "https://app.example". All
	// other requests that a web page makes are refused.
	Origins []string
}

// TokenFile is where the token of the TCP listener is.
func TokenFile(home config.Home) string {
	return filepath.Join(filepath.Dir(home.SettingsFile()), tokenName)
}

// ListenTCP answers on TCP too, until Close.
func (s *Server) ListenTCP(t TCP) (net.Addr, error) {
	const op = "listen"
	address, err := netip.ParseAddrPort(t.Address)
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, op, t.Address, err).Advise("Write an address and a port: 127.0.0.1:8137.")
	}
	if !address.Addr().IsLoopback() && !t.Exposed {
		return nil, fault.New(fault.Rejected, op, t.Address, errors.New("other computers could reach it")).
			Advise("Use 127.0.0.1, or say --expose if that is what you want.")
	}
	token, err := token(s.Sandbox.Home())
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", t.Address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, t.Address, err).Advise("Choose another port.")
	}
	g := guard{token: token, hosts: append([]string{"localhost", "127.0.0.1", "::1", address.Addr().String()}, t.Hosts...), origins: t.Origins, next: s.handler}
	server := s.server(g)
	s.http.RegisterOnShutdown(func() { _ = server.Close() })
	go s.serve(server, l)
	s.Log.Info("the API listens on TCP", "address", l.Addr(), "exposed", t.Exposed)
	return l.Addr(), nil
}

// token is the home's token, made when it is first needed.
func token(home config.Home) (string, error) {
	const op = "read token"
	path := TokenFile(home)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := home.Make(filepath.Dir(path)); err != nil {
			return "", err
		}
		fresh := rand.Text()
		return fresh, config.WriteFile(path, []byte(fresh+"\n"))
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, op, path, err).Advise("Make it readable for you.")
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > maxToken {
		return "", fault.New(fault.Rejected, op, path, errors.New("others can read it, or it is no token")).Advise("Remove it; a new one is made.")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fault.New(fault.Unavailable, op, path, err).Advise("Make it readable for you, or remove it; a new one is made.")
	}
	t := strings.TrimSpace(string(text))
	if len(t) < minToken {
		return "", fault.New(fault.Rejected, op, path, fmt.Errorf("%d characters are too few", len(t))).Advise("Remove it; a new one is made.")
	}
	return t, nil
}

// guard lets those pass who have the token and are no web page that should not
// call. The names in Host keep a page's own domain from being pointed here.
type guard struct {
	token          string
	hosts, origins []string
	next           http.Handler
}

func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.admit(r); err != nil {
		_ = connect.NewErrorWriter().Write(w, r, err)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g guard) admit(r *http.Request) error {
	const op = "check request"
	refused := func(subject, why, advice string) error {
		return faultrpc.Encode(fault.New(fault.Rejected, op, faultrpc.Clip(subject), errors.New(why)).Advise(advice))
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if !slices.Contains(g.hosts, strings.Trim(host, "[]")) {
		return refused("Host "+r.Host, "it is not a name of this listener", "Call it by its address, or start it with --host.")
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !slices.Contains(g.origins, origins[0]) {
		return refused("Origin "+origins[0], "this page may not call", "Start it with --origin.")
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(bearer), []byte(g.token)) != 1 {
		return faultrpc.EncodeAs(connect.CodeUnauthenticated, fault.New(fault.Rejected, op, "Authorization", errors.New("no token, or not the right one")).
			Advise("Send the header Authorization: Bearer TOKEN, with the token that is in config/"+tokenName+" of the home."))
	}
	return nil
}
