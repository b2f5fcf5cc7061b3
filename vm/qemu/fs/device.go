//go:build linux

package fs

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/vhostuser"
)

const (
	// defaultFiles is the default of Options.Files: several shares of several
	// machines fit into a common limit of 20,000 descriptors.
	defaultFiles = 4096
	// minFiles lets folders be resolved and a few files be open.
	minFiles = 32
	// maxInFlight bounds the bytes of all requests that may wait for the host's disk at
	// once, for go-fuse allocates as much. What is beyond waits without memory of its own. Of
	// other requests each queue has one at a time.
	maxInFlight = 64 << 20
	// maxSlow bounds the requests that may wait for the host's disk at once: each
	// has a thread of this process, which ends if it has too many. A disk is as
	// busy with fewer. What is beyond waits without one.
	maxSlow = 128
	// maxBackground is how many read-aheads the guest may have under way.
	maxBackground = 64
)

// Options are the optional parameters of New.
type Options struct {
	// Files bounds the descriptors held for the guest: of folders in use, which
	// are recycled, and of open files, of which one too many is ENFILE in the
	// guest, as is one more than are left for who has opened so many. The default is 4096, or a quarter of the process's limit if that
	// is less.
	Files int
	// Log gets what the host's user should know; the default discards it.
	Log *slog.Logger
}

// Stats is what a device holds at the moment.
type Stats struct {
	Nodes int // files the guest's kernel knows
	Paths int // descriptors of folders, and of removed files, recycled
	Open  int // files and folders the guest has open
}

// Device is one share. It implements [vhostuser.Device].
type Device struct {
	share vm.Share
	files int
	log   *slog.Logger
	root  *descriptor
	rules rules
	floor floor
	// memory is how many bytes more may be in requests that wait for the host's disk.
	memory budget
	// slow is how many requests more may wait for the host's disk.
	slow budget

	mu     sync.Mutex
	cur    *session // nil: not mounted
	closed bool
}

var _ vhostuser.Device = (*Device)(nil)

// New prepares a share. The folder must exist; it stays the same folder for
// the life of the device, even if it is renamed. The caller closes the device
// after it is no longer served.
func New(share vm.Share, opts Options) (*Device, error) {
	const op = "share"
	switch share.Ownership {
	case vm.OwnershipSubtree, vm.OwnershipAsker, vm.OwnershipEverybody:
	case "":
		share.Ownership = vm.OwnershipSubtree
	default:
		return nil, fault.New(fault.InvalidArgs, op, share.Path, nil).Advise(fmt.Sprintf("Ownership is %s, %s or %s.", vm.OwnershipSubtree, vm.OwnershipAsker, vm.OwnershipEverybody))
	}
	if share.MinFree < 0 {
		return nil, fault.New(fault.InvalidArgs, op, share.Path, nil).Advise("MinFree is zero or positive.")
	}
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
	fd, err := unix.Open(share.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR:
		return nil, fault.New(fault.NotFound, op, share.Path, err).Advise("Create the folder, or name one that exists.")
	default:
		return nil, fault.New(fault.Execution, op, share.Path, err).Advise("Share a folder that you may read.")
	}
	d := &Device{share: share, files: max(opts.Files, minFiles), log: opts.Log.With("share", share.Tag), root: newDescriptor(fd)}
	d.memory.init(maxInFlight)
	d.slow.init(maxSlow)
	d.floor.min = share.MinFree
	if d.rules.root, err = identify(d.root); err == nil {
		err = probe(d.root)
	}
	if err != nil {
		d.root.release()
		return nil, fault.New(fault.Unavailable, op, share.Path, err).Advise("Use Linux 5.8 or newer, and a sandbox around this program that allows openat2, statx and /proc.")
	}
	d.rules.init(d.root, share.Subtrees, d.log)
	return d, nil
}

// Close lets go of everything; the guest's requests then fail. It does not
// wait for requests in progress.
func (d *Device) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if !closed {
		d.rules.close()
		d.replace(nil)
		d.root.release()
	}
	return nil
}

// Stats returns what the device holds.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	s := d.cur
	d.mu.Unlock()
	if s == nil {
		return Stats{}
	}
	return s.stats()
}

func (d *Device) Features() uint64 { return 0 }

// Queues implements vhostuser.Device: one for FORGET, one for requests. Linux
// uses no more of them before 6.10.
func (d *Device) Queues() int { return 2 }

// Config implements vhostuser.Device: QEMU keeps tag and queue count itself.
func (d *Device) Config() []byte { return nil }

// Reset implements vhostuser.Device: the guest has forgotten all it knew.
func (d *Device) Reset() { d.replace(nil) }

// replace makes s the current session. The old one ends when its requests are
// done.
func (d *Device) replace(s *session) {
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

// session returns the current session, with one request more in progress.
func (d *Device) session() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cur != nil {
		d.cur.requests.Add(1)
	}
	return d.cur
}

// mount serves FUSE_INIT, with which a session begins: a guest that reboots or
// mounts again says no more than this. The session is in use only when go-fuse
// has taken note of the guest's settings.
func (d *Device) mount(h header, request, reply [][]byte, space int) int {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return refuse(h, unix.ENODEV, reply, space)
	}
	s := newSession(d)
	d.mu.Unlock()
	n, st := s.protocol.HandleRequest(request, reply)
	if !st.Ok() {
		s.close()
		return refuse(h, unix.Errno(st), reply, space)
	}
	d.replace(s)
	return n
}

// HandleQueue implements vhostuser.Device. What cannot take long is served at
// once, without the cost of another goroutine; the rest has a goroutine per
// request.
func (d *Device) HandleQueue(q *vhostuser.Queue) {
	for {
		c, ok := q.Pop()
		if !ok {
			return
		}
		if c.OutLen < inHeaderSize || c.OutLen > maxMessage || c.InLen > maxMessage {
			q.Push(c, 0)
			q.Notify()
			continue
		}
		h := readHeader(c.Out)
		if h.op == opRead {
			if n, ok := d.readCached(h, c); ok {
				q.Push(c, n)
				q.Notify()
				continue
			}
		}
		if slow(h.op, c.Out) {
			q.Go(c, func(c *vhostuser.Chain) int { // and waits there, for what is not slow has no part in this
				size := c.OutLen + c.InLen
				d.memory.take(size)
				defer d.memory.give(size)
				d.slow.take(1)
				defer d.slow.give(1)
				return d.handle(h, c)
			})
		} else {
			q.Push(c, d.handle(h, c))
			q.Notify()
		}
	}
}

// handle serves one request and returns the length of its reply.
func (d *Device) handle(h header, c *vhostuser.Chain) (n int) {
	defer func() {
		if r := recover(); r != nil {
			d.panicked(r)
			n = refuse(h, unix.EIO, c.In, c.InLen)
		}
	}()
	return d.serve(h, c.Out, c.OutLen, c.In, c.InLen)
}

func (d *Device) panicked(r any) {
	d.log.Error("a file system request failed badly", "panic", r, "stack", string(debug.Stack()))
}

// serve is handle on bare buffers.
func (d *Device) serve(h header, request [][]byte, length int, reply [][]byte, space int) int {
	if o, ok := operationOf(h.op); ok && !o.silent && space < outHeaderSize {
		return 0 // no room to say anything
	}
	if errno := check(h.op, request, length, d.share.ReadOnly); errno != 0 {
		return refuse(h, errno, reply, space)
	}
	// Names and the like are checked and then used: take them out of the guest's
	// reach. Only WRITE's data goes to the file as it is.
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
	n, st := s.protocol.HandleRequest(request, reply)
	if !st.Ok() {
		return refuse(h, unix.Errno(st), reply, space)
	}
	return n
}

// newProtocol returns go-fuse's half of a session.
func newProtocol(s *session) *fuse.ProtocolServer {
	extra := uint64(fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_ASYNC_DIO |
		// There are no set-user-ID bits to clear, so this costs nothing and
		// saves the guest a question about capabilities at each write.
		fuse.CAP_HANDLE_KILLPRIV_V2)
	var disabled uint64
	if s.policy != vm.OwnershipSubtree {
		// Attributes are never fresh, so this would ask at each read. Data is
		// fresh as of open instead.
		disabled = fuse.CAP_AUTO_INVAL_DATA
	}
	return fuse.NewProtocolServer(s, &fuse.MountOptions{
		MaxWrite:      maxData,
		MaxReadAhead:  maxData,
		MaxBackground: maxBackground,
		// A link's target never changes, only the link; but without times of birth
		// a new one may pass for one that was there before.
		EnableSymlinkCaching: s.dev.rules.root.born != 0,
		ExtraCapabilities:    extra,
		DisabledCapabilities: disabled,
		Logger:               log.New(io.Discard, "", 0), // the guest decides how much it says
		PanicHandler: func(r any) fuse.Status {
			s.dev.panicked(r)
			return fuse.EIO
		},
	})
}

// budget is an amount that many share.
type budget struct {
	mu    sync.Mutex
	freed sync.Cond
	left  int
}

func (b *budget) init(n int) { b.left, b.freed.L = n, &b.mu }

// take waits until n can be taken. No n is larger than the whole.
func (b *budget) take(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n {
		b.freed.Wait()
	}
	b.left -= n
}

func (b *budget) give(n int) {
	b.mu.Lock()
	b.left += n
	b.mu.Unlock()
	b.freed.Broadcast()
}
