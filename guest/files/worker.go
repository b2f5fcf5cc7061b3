//go:build linux

// Package files touches the files of agents: a worker in each room, as its agent, and the keeper of workers who passes requests on to them.
package files

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/internal/wire"
)

// WorkerCommand is the argument with which the guest program becomes a worker.
const WorkerCommand = "files-worker"

// service answers the service Files, with the rights of its process.
type service struct{}

// Work is the life of a worker: it answers on the socket that is its standard
// input, until that is closed. It does not return.
func Work() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "osaurus-guest: files:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func work() error {
	// What it has read is nobody else's, also of the same user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(0o022)
	socket := os.NewFile(0, "socket")
	conn, err := net.FileConn(socket)
	if err != nil {
		return err
	}
	_ = socket.Close()
	return serve(conn)
}

// Handler answers the service Files at a path, with the rights of this process.
func Handler() (path string, h http.Handler) {
	return guestpbconnect.NewFilesHandler(service{}, wire.HandlerOptions(), connect.WithInterceptors(faultrpc.Interceptor()))
}

// serve answers on one connection until it is closed.
func serve(conn net.Conn) error {
	mux := http.NewServeMux()
	mux.Handle(Handler())
	server := &http.Server{Handler: mux, Protocols: wire.Protocols(), HTTP2: wire.HTTP2(), MaxHeaderBytes: wire.MaxHeaders}
	l := newOnce(conn)
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			_ = l.Close()
		}
	}
	if err := server.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// once is a listener for one connection that is there already.
type once struct {
	conn   chan net.Conn
	addr   net.Addr
	closed chan struct{}
	close  func()
}

func newOnce(conn net.Conn) *once {
	l := &once{conn: make(chan net.Conn, 1), addr: conn.LocalAddr(), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	l.conn <- conn
	return l
}

func (l *once) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *once) Close() error {
	l.close()
	return nil
}

func (l *once) Addr() net.Addr { return l.addr }
