//go:build linux

package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault/faultrpc"
)

const (
	// entryTime bounds the wait for a connection's header, which the host sends at once.
	entryTime = 10 * time.Second
	// acceptPause is the pause after a failed accept. Memory or descriptors may be short for a
	// moment, and giving up would end all commands.
	acceptPause = 100 * time.Millisecond
)

// ServeEntries serves connections that begin with a DataHeader, until the listener is closed. It
// passes those with a user to the worker of the user's room and runs commands without input from
// the others.
func (s *Service) ServeEntries(l net.Listener) error {
	e := entries{Listener: l, conns: make(chan net.Conn), done: make(chan struct{})}
	defer close(e.done)
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(s, options()...))
	server := &http.Server{Handler: refuse(mux), MaxHeaderBytes: protocol.MaxHeaders, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, refusal{}, c.(entered).refused)
	}}
	go func() { _ = server.Serve(e) }()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		go s.enter(c, e)
	}
}

// enter reads a connection's header and passes the connection on. It closes one without a header,
// and has requests on one that cannot be served answered with the error.
func (s *Service) enter(c net.Conn, to entries) {
	_ = c.SetReadDeadline(time.Now().Add(entryTime))
	h, err := protocol.ReadDataHeader(c)
	if err != nil || c.SetReadDeadline(time.Time{}) != nil {
		_ = c.Close()
		return
	}
	err = s.admit(h.Key)
	if id, ok := strings.CutPrefix(h.User, protocol.MountUser); ok && err == nil {
		s.mounts.Offer(id, c)
		return
	}
	if err == nil && h.User != "" {
		if err = s.files.Hand(context.Background(), h.User, c); err == nil {
			_ = c.Close() // the worker has a copy
			return
		}
	}
	select {
	case to.conns <- entered{c, err}:
	case <-to.done:
		_ = c.Close()
	}
}

// entries is a listener for connections whose header has been read.
type entries struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{}
}

func (e entries) Accept() (net.Conn, error) {
	select {
	case c := <-e.conns:
		return c, nil
	case <-e.done:
		return nil, net.ErrClosed
	}
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
