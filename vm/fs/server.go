package fs

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

const (
	// defaultFiles is the default of Options.Files: several shares of several
	// machines fit into a common limit of 20,000 descriptors.
	defaultFiles = 4096
	// minFiles lets folders be resolved and a few files be open.
	minFiles = 32
	// maxInFlight bounds the bytes of all requests that wait for the host's disk, because as much
	// may be allocated. Further requests wait before they allocate. Of other requests, each queue
	// handles one at a time.
	maxInFlight = 64 << 20
	// maxSlow bounds the requests that wait for the host's disk, because each uses a thread and the
	// Go runtime aborts if there are too many. Further requests wait without a thread.
	maxSlow = 128
	// maxBackground bounds the guest's concurrent read-aheads.
	maxBackground = 64
)

// Options are the optional parameters of New.
type Options struct {
	// Root, if not nil, is the folder, whatever has its path by now.
	Root *os.Root
	// Files bounds the descriptors held for the guest. Those of folders are recycled. Opening too
	// many files fails with ENFILE in the guest; a user who has many open fails earlier (see
	// mayOpen). The default is 4096, or a quarter of the process's limit if that is less.
	Files int
	// Lower says that the share is the lower layer of an overlay, which takes a file that was replaced for
	// stale anyway. So the guest's kernel opens files without asking, and each READ opens its own.
	Lower bool
	// UID is the owner of all files outside of subtrees, under OwnershipSubtree, and their group.
	UID uint32
	// Log receives messages for the host's user. Nil discards them.
	Log *slog.Logger
	// Wrap, if not nil, changes what the share answers: see appletest.
	Wrap func(fuse.RawFileSystem) fuse.RawFileSystem
}

// Server serves one folder, to one mount at a time.
type Server struct {
	share   vm.Share
	opts    Options
	root    *descriptor
	rules   rules
	floor   floor
	memory  *semaphore.Weighted // of maxInFlight
	slow    *semaphore.Weighted // of maxSlow
	serving sync.Mutex          // a stream

	mu     sync.Mutex
	cur    *session // nil if not mounted
	closed bool
}

// New returns a server for a folder, which must exist. The server keeps using the same folder if it
// is renamed. The caller must close the server.
func New(share vm.Share, opts Options) (*Server, error) {
	const op = "share"
	share.Ownership = cmp.Or(share.Ownership, vm.OwnershipSubtree)
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Files == 0 {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return nil, fault.New(fault.Execution, op, share.Path, err)
		}
		opts.Files = int(min(limit.Cur/4, defaultFiles))
	}
	fd, err := openFolder(share.Path, opts.Root)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR:
		return nil, fault.New(fault.NotFound, op, share.Path, err).Advise("Create the folder, or name one that exists.")
	default:
		return nil, fault.New(fault.Execution, op, share.Path, err).Advise("Share a folder that you may read.")
	}
	opts.Files, opts.Log = max(opts.Files, minFiles), opts.Log.With("share", share.Tag)
	d := &Server{share: share, opts: opts, root: newDescriptor(fd), memory: semaphore.NewWeighted(maxInFlight), slow: semaphore.NewWeighted(maxSlow)}
	d.floor.min = share.MinFree
	if d.rules.root, err = identify(d.root); err == nil {
		err = probe(d.root)
	}
	if err != nil {
		d.root.release()
		return nil, fault.New(fault.Unavailable, op, share.Path, err).Advise("Use Linux 5.8 or newer, and a sandbox around this program that allows openat2, statx and /proc.")
	}
	d.rules.init(d.root, fuse.Owner{Uid: opts.UID, Gid: opts.UID}, share.Subtrees, opts.Log)
	return d, nil
}

func openFolder(path string, root *os.Root) (int, error) {
	if root == nil {
		return unix.Open(path, oFolder|unix.O_CLOEXEC, 0)
	}
	dir, err := root.Open(".")
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	return unix.Openat(int(dir.Fd()), ".", oFolder|unix.O_CLOEXEC, 0)
}

// Close releases everything. Later requests of the guest fail. Close does not wait for requests in
// progress.
func (d *Server) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if !closed {
		d.rules.closed.Store(true)
		d.replace(nil)
		d.root.release()
	}
	return nil
}

// Unmount ends the session.
func (d *Server) Unmount() { d.replace(nil) }

// replace makes s the current session. The old one is closed when its requests are done.
func (d *Server) replace(s *session) {
	d.mu.Lock()
	old := d.cur
	if d.cur = s; d.closed && s != nil {
		old, d.cur = s, nil
	}
	d.mu.Unlock()
	if old != nil {
		go func() { old.requests.Wait(); old.close() }()
	}
}

// session returns the current session and counts one more request in progress.
func (d *Server) session() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cur != nil {
		d.cur.requests.Add(1)
	}
	return d.cur
}

// mount handles FUSE_INIT, which starts a new session, also after a reboot or another mount.
func (d *Server) mount(h header, request, reply [][]byte, space int) int {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return refuse(h, unix.ENODEV, reply, space)
	}
	s := newSession(d)
	d.mu.Unlock()
	d.replace(s)
	return s.do(h, request, reply, space)
}

// Request is a FUSE request and the space for its reply. Both may be memory that the guest changes.
type Request struct {
	Out    [][]byte // from the guest
	OutLen int
	In     [][]byte // to the guest
	InLen  int
}

// Valid reports whether the lengths are those of a request. Others must not be handled.
func (r Request) Valid() bool {
	return r.OutLen >= inHeaderSize && r.OutLen <= maxMessage && r.InLen <= maxMessage
}

// Slow reports whether a request may wait for the host's disk. Such a request needs Admit.
func (r Request) Slow() bool { return slow(readHeader(r.Out).op, r.Out) }

// Admit waits until a slow request may be handled. The caller must call done after that.
func (d *Server) Admit(r Request) (done func()) {
	size := int64(r.OutLen + r.InLen)
	_ = d.memory.Acquire(context.Background(), size) // a valid request never needs more than all
	_ = d.slow.Acquire(context.Background(), 1)
	return func() {
		d.slow.Release(1)
		d.memory.Release(size)
	}
}

// Handle serves one request and returns the length of its reply.
func (d *Server) Handle(r Request) (n int) {
	h := readHeader(r.Out)
	defer func() {
		if p := recover(); p != nil {
			d.opts.Log.Error("a file system request failed badly", "panic", p, "stack", string(debug.Stack()))
			n = refuse(h, unix.EIO, r.In, r.InLen)
		}
	}()
	return d.serve(h, r.Out, r.OutLen, r.In, r.InLen)
}

// serve is handle for plain buffers.
func (d *Server) serve(h header, request [][]byte, length int, reply [][]byte, space int) int {
	if o := h.op.operation(); o.size > 0 && !o.silent && space < outHeaderSize {
		return 0 // no space for a reply
	}
	if errno := check(h.op, request, length, d.share.ReadOnly); errno != 0 {
		return refuse(h, errno, reply, space)
	}
	// Copy the request, so that the guest cannot change names after they were checked. Only the
	// data of WRITE is not copied.
	if h.op == opWrite {
		length = int(unsafe.Sizeof(fuse.WriteIn{}))
	}
	taken := make([]byte, length)
	gather(taken, request)
	request = append([][]byte{taken}, after(request, length)...)
	if readHeader(request) != h {
		return refuse(h, unix.EIO, reply, space)
	}
	if h.op == opInit {
		return d.mount(h, request, reply, space)
	}
	s := d.session()
	if s == nil {
		return refuse(h, unix.ENODEV, reply, space)
	}
	defer s.requests.Done()
	return s.do(h, request, reply, space)
}
