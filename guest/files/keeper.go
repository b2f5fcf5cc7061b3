//go:build linux

package files

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/guest/process"
)

const (
	// idleTime is how long a worker waits for more work: the next call comes
	// quickly or not at all, and it costs its agent some megabytes.
	idleTime = 2 * time.Minute
	// maxCalls bounds the calls of one room that are under way. One more is
	// refused.
	maxCalls = 16
)

// Room is where a worker works.
type Room struct {
	Place process.Place
	Env   []string
	// Dead is closed when the room has ended.
	Dead <-chan struct{}
	// Program is the guest program, by its path outside of the room, which does not
	// show it.
	Program string
}

// Options are what a keeper is made of.
type Options struct {
	Processes *process.Keeper
	// Find finds the room of a user, and makes it anew if it has ended.
	Find func(ctx context.Context, user string) (Room, error)
}

// Keeper has a worker in each room whose files are asked for, and passes requests
// on to it. It answers HTTP for the service Files.
type Keeper struct {
	Options
	mu      sync.Mutex
	workers map[string]*worker
}

// NewKeeper returns a keeper without workers.
func NewKeeper(o Options) *Keeper { return &Keeper{Options: o, workers: map[string]*worker{}} }

// worker is one that runs, or is being started.
type worker struct {
	ready chan struct{} // closed when it was started, or was not
	err   error
	child *process.Child
	proxy *httputil.ReverseProxy
	calls int // under way; the keeper's mutex guards it
	idle  *time.Timer
	end   func()
}

// ServeHTTP passes a request on to the worker of the room that it names.
func (k *Keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get(wire.UserHeader)
	got, err := k.take(r.Context(), user)
	if err != nil {
		_ = connect.NewErrorWriter().Write(w, r, faultrpc.Encode(err))
		return
	}
	defer k.give(got)
	got.proxy.ServeHTTP(w, r)
}

// take has a worker for one more call.
func (k *Keeper) take(ctx context.Context, user string) (*worker, error) {
	const op = "touch files"
	k.mu.Lock()
	w := k.workers[user]
	if w == nil {
		w = &worker{ready: make(chan struct{})}
		k.workers[user] = w
		// Not bound to the call: others may wait for it.
		go k.start(context.WithoutCancel(ctx), user, w)
	}
	if w.calls >= maxCalls {
		k.mu.Unlock()
		return nil, fault.New(fault.Rejected, op, user, errors.New("too many calls about files of this agent are under way")).Advise("Wait for some of them.")
	}
	w.calls++
	if w.idle != nil {
		w.idle.Stop()
	}
	k.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		k.give(w)
		return nil, ctx.Err()
	}
	if w.err != nil {
		k.give(w)
		return nil, w.err
	}
	return w, nil
}

// give has one call less.
func (k *Keeper) give(w *worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.calls--; w.calls == 0 && w.idle != nil {
		w.idle.Reset(idleTime)
	}
}

// start starts a worker, and sees to its end.
func (k *Keeper) start(ctx context.Context, user string, w *worker) {
	room, err := k.launch(ctx, user, w)
	k.mu.Lock()
	w.err = err
	if err == nil {
		w.idle = time.AfterFunc(idleTime, func() { k.retire(user, w) })
		if w.calls > 0 {
			w.idle.Stop()
		}
	} else {
		delete(k.workers, user)
	}
	k.mu.Unlock()
	close(w.ready)
	if err != nil {
		return
	}
	select {
	case <-w.child.Done():
	case <-room.Dead:
	}
	k.mu.Lock()
	if k.workers[user] == w {
		delete(k.workers, user)
	}
	k.mu.Unlock()
	w.idle.Stop()
	w.end()
}

// retire ends a worker that nobody has used for a while.
func (k *Keeper) retire(user string, w *worker) {
	k.mu.Lock()
	unused := w.calls == 0
	if unused && k.workers[user] == w {
		delete(k.workers, user)
	}
	k.mu.Unlock()
	if unused {
		w.end()
	}
}

// launch starts a worker in its room.
func (k *Keeper) launch(ctx context.Context, user string, w *worker) (Room, error) {
	const op = "start worker for files"
	room, err := k.Find(ctx, user)
	if err != nil {
		return room, err
	}
	program, err := os.OpenFile(room.Program, unix.O_PATH, 0)
	if err != nil {
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer program.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = ours.Close()
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer null.Close()
	w.child, err = k.Processes.Start(process.Spec{
		Args: []string{"osaurus-guest", WorkerCommand}, Program: program, Dir: "/", Place: room.Place,
		Env:   append(room.Env, "GOMEMLIMIT=96MiB", "GOTRACEBACK=none"),
		Files: [3]uintptr{theirs.Fd(), null.Fd(), null.Fd()},
	})
	if err != nil {
		_ = ours.Close()
		return room, err
	}
	w.proxy, w.end = through(ours)
	end := w.end
	w.end = func() { end(); w.child.Release() }
	return room, nil
}

// through is a proxy whose requests all go over one connection.
func through(conn net.Conn) (proxy *httputil.ReverseProxy, end func()) {
	only := make(chan net.Conn, 1)
	only <- conn
	transport := &http.Transport{
		Protocols: wire.Protocols(), HTTP2: wire.HTTP2(), DisableCompression: true, MaxResponseHeaderBytes: wire.MaxHeaders,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-only:
				return c, nil
			default:
				return nil, errors.New("the worker for files has ended")
			}
		},
	}
	to := &url.URL{Scheme: "http", Host: "files"}
	proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		BufferPool:    new(chunks),
		FlushInterval: -1, // what is found is told at once
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				err = r.Context().Err()
			}
			_ = connect.NewErrorWriter().Write(w, r, faultrpc.Encode(fault.New(fault.Unavailable, "touch files", "", err).
				Advise("The room may be at its limit of memory or processes, or was ended: try again.")))
		},
	}
	return proxy, func() {
		_ = conn.Close()
		transport.CloseIdleConnections()
	}
}

// chunks are the buffers of a proxy, as large as what is sent at once: each is a frame
// of its own.
type chunks struct{ sync.Pool }

func (c *chunks) Get() []byte {
	if b, ok := c.Pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, wire.Chunk)
}

func (c *chunks) Put(b []byte) { c.Pool.Put(&b) }

// socketPair is a connection to a child, and the child's end of it.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "worker")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
