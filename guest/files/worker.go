//go:build linux

// Package files accesses the files of agents with a worker process in each room, which runs as the agent.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// WorkerCommand is the guest program's argument that starts a worker.
const WorkerCommand = "files-worker"

// service implements the service Files with the rights of its process.
type service struct{}

// Work runs a worker: it serves the connections passed to its standard input until that is closed,
// then exits.
func Work() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "osaurus-guest: files:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func work() error {
	// Hides the worker's memory from other processes of its user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(0o022)
	socket, err := socketOf(os.NewFile(0, "socket"))
	if err != nil {
		return err
	}
	return serve(socket, idleTime)
}

// Handler returns the service Files, acting with the rights of this process, and its path.
func Handler() (path string, h http.Handler) {
	return guestpbconnect.NewFilesHandler(service{}, protocol.HandlerOptions(), connect.WithReadMaxBytes(protocol.MaxFileMessage), connect.WithInterceptors(faultrpc.Interceptor()))
}

// idleTime is how long a worker, which takes a few megabytes, is kept without connections.
const idleTime = 2 * time.Minute

// serve serves connections passed over a socket until that is closed, or until it has been idle. It
// uses HTTP/1.1, where handlers read and write the connection directly.
func serve(socket *net.UnixConn, idleTime time.Duration) error {
	mux := http.NewServeMux()
	mux.Handle(Handler())
	var mu sync.Mutex
	open := 0
	// The manager can pass no more connections then. Those on their way are served.
	idle := time.AfterFunc(idleTime, func() { _ = socket.CloseRead() })
	defer idle.Stop()
	var busy sync.WaitGroup
	server := &http.Server{Handler: mux, MaxHeaderBytes: protocol.MaxHeaders}
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			idle.Stop()
			busy.Add(1)
			open++
		case http.StateClosed:
			busy.Done()
			if open--; open == 0 {
				idle.Reset(idleTime)
			}
		}
	}
	err := server.Serve(handed{socket})
	busy.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// handed is a listener that receives connections over a socket.
type handed struct{ socket *net.UnixConn }

func (l handed) Accept() (net.Conn, error) {
	var word [1]byte
	rights := make([]byte, unix.CmsgSpace(4)) // of one descriptor
	_, n, _, _, err := l.socket.ReadMsgUnix(word[:], rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err == nil && len(messages) != 1 { // this process may be out of descriptors
		err = fmt.Errorf("%d messages instead of one with a connection", len(messages))
	}
	if err != nil {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err == nil && len(fds) != 1 {
		err = fmt.Errorf("%d connections instead of one", len(fds))
	}
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	return handedConn{os.NewFile(uintptr(fds[0]), "connection")}, nil
}

func (l handed) Close() error   { return l.socket.Close() }
func (l handed) Addr() net.Addr { return l.socket.LocalAddr() }

// handedConn is a connection of any family, because package net does not support vsock.
type handedConn struct{ *os.File }

// Read implements net.Conn. It unwraps errors, because package http expects a net.Error for a deadline.
func (c handedConn) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return n, err
}

func (c handedConn) LocalAddr() net.Addr  { return &net.UnixAddr{} }
func (c handedConn) RemoteAddr() net.Addr { return &net.UnixAddr{} }
