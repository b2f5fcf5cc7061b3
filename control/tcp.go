package control

import (
	"net"
	"net/http"
	"net/netip"
	"path/filepath"

	"connectrpc.com/connect"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// TCP is a listener for apps that cannot use Unix sockets.
type TCP struct {
	// Address is where it listens: "127.0.0.1:8137".
	Address string
	// Exposed allows an address that other computers can reach. The connection is
	// not encrypted, so that anyone on the network can read the token.
	Exposed bool
	// Hosts are further allowed names in the Host header.
	Hosts []string
	// Origins are the web pages that may call: "https://app.example". Requests
	// from other pages are refused.
	Origins []string
}

// ListenTCP serves the API on TCP too, until Close.
func (s *Server) ListenTCP(t TCP) (net.Addr, error) {
	const op = "listen"
	address, err := netip.ParseAddrPort(t.Address)
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, op, t.Address, err).Advise("Write an address and a port: 127.0.0.1:8137.")
	}
	if !address.Addr().IsLoopback() && !t.Exposed {
		return nil, fault.Newf(fault.Rejected, op, t.Address, "other computers could reach it").
			Advise("Use 127.0.0.1, or add --expose if that is what you want.")
	}
	home := s.Sandbox.Home()
	token, err := ReadToken(home, home.APIToken())
	if err != nil {
		return nil, err
	}
	l, err := ListenLimited(t.Address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, t.Address, err).Advise("Choose another port.")
	}
	g := Guard{
		Token: token, TokenFile: "config/" + filepath.Base(home.APIToken()), Hosts: append(LocalHosts(address.String()), t.Hosts...), Origins: t.Origins,
		OtherHost: "Call it by its address, or start it with --host.", OtherOrigin: "Start it with --origin.", Refuse: refuse,
	}
	server := g.Server(s.handler, s.Log)
	server.Protocols, server.HTTP2, server.ConnContext = protocols(), http2(), withPeer
	s.http.RegisterOnShutdown(func() { _ = server.Close() })
	go s.serve(server, l)
	s.Log.Info("the API listens on TCP", "address", l.Addr(), "exposed", t.Exposed)
	return l.Addr(), nil
}

// refuse answers a request with an error in the protocol of the API.
func refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	refusal := faultrpc.Encode(err)
	if status == http.StatusUnauthorized {
		refusal = faultrpc.EncodeAs(connect.CodeUnauthenticated, err)
	}
	_ = connect.NewErrorWriter().Write(w, r, refusal)
}
