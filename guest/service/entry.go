//go:build linux

package service

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// ServeEntries serves connections that begin with a DataHeader, until the listener is closed. It
// passes those with a user to the worker of the user's room and runs commands without input from
// the others.
func (s *Service) ServeEntries(l net.Listener) error {
	entries := protocol.Listen(l, protocol.HeaderTimeout, func(r io.Reader) (func(net.Conn) net.Conn, error) {
		h, err := protocol.ReadDataHeader(r)
		return func(c net.Conn) net.Conn { return s.enter(c, h) }, err
	})
	defer entries.Close()
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(s, options()...))
	server := &http.Server{Handler: refuse(mux), MaxHeaderBytes: protocol.MaxHeaders, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, refusal{}, c.(entered).refused)
	}}
	return server.Serve(entries)
}

// enter passes a connection on, or returns it to be served. Requests on one that must not be served are
// answered with the error.
func (s *Service) enter(c net.Conn, h protocol.DataHeader) net.Conn {
	err := s.admit(h.Key)
	if id, ok := strings.CutPrefix(h.User, protocol.MountUser); ok && err == nil {
		s.mounts.Offer(id, c)
		return nil
	}
	if err == nil && h.User != "" {
		if err = s.files.Hand(context.Background(), h.User, c); err == nil {
			_ = c.Close() // the worker has a copy
			return nil
		}
	}
	return entered{c, err}
}

// entered is a connection after its header.
type entered struct {
	net.Conn
	refused error // why it is not served
}

type refusal struct{}

// refuse answers requests of connections that are not served.
func refuse(next http.Handler) http.Handler {
	answer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err, ok := r.Context().Value(refusal{}).(error); ok {
			w.Header().Set("Connection", "close") // another connection may be served
			_ = answer.Write(w, r, faultrpc.Encode(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}
