// Package fs is a virtio-fs device that lives in this process: it shares a
// directory of the host with a guest.
//
// go-fuse speaks the FUSE protocol ([fuse.ProtocolServer]); this package
// connects it to virtqueues (this file) and implements a file system that is
// confined to the directory (loopback.go).
package fs

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm/qemu/vhostuser"
)

const (
	// maxWrite is the largest READ and WRITE. The guest limits it further
	// to (queue size - 4) pages, so give QEMU queue-size=1024.
	maxWrite = 1 << 20
	// maxMessage bounds both directions of a request. Without it a guest
	// could describe the same page over and over and make go-fuse allocate
	// gigabytes.
	maxMessage = maxWrite + 64<<10
	// maxCopied is the largest request other than WRITE.
	maxCopied = 128 << 10

	opWrite    = 16
	opInit     = 26
	headerSize = 40
)

// Options are the optional parameters of New.
type Options struct {
	// AttrTimeout and EntryTimeout are how long the guest may use attributes
	// and names without asking. With an owner that depends on who asks,
	// anything but zero lets one user see (and be checked against) an
	// owner that was computed for another. An AttrTimeout of a millisecond
	// with EntryTimeout zero is nearly as strict (each path lookup still
	// asks) and saves half of the requests of a path lookup.
	AttrTimeout, EntryTimeout time.Duration
	// CloseToOpen makes the guest look for changes of file data only when
	// it opens a file, not at each read.
	CloseToOpen bool
	// Owner, if set, is shown as the owner of everything instead of the
	// asking process's user; then the timeouts may be longer.
	Owner *fuse.Owner
	// MaxFiles bounds the descriptors this process holds for the guest: one
	// for each file the guest's kernel knows and one for each it has open.
	// Default: half of the limit of open files.
	MaxFiles int
	// RequestQueues is the number of request queues; default 1.
	RequestQueues int
	Log           *log.Logger // default: discard
}

// Device is one shared directory. It implements vhostuser.Device.
type Device struct {
	root string
	opts Options

	mu  sync.Mutex
	cur *session
}

// session is one mount of the file system by the guest. Each FUSE_INIT starts
// one: a guest that reboots forgets its nodes and handles without a word.
type session struct {
	ps  *fuse.ProtocolServer
	fs  *loopback
	ref sync.WaitGroup // requests in progress; Add only under Device.mu while current
}

// New shares the directory root.
func New(root string, opts Options) (*Device, error) {
	if opts.Log == nil {
		opts.Log = log.New(io.Discard, "", 0)
	}
	if opts.MaxFiles == 0 {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
			return nil, err
		}
		opts.MaxFiles = int(min(lim.Cur, 1<<20) / 2)
	}
	if opts.RequestQueues == 0 {
		opts.RequestQueues = 1
	}
	d := &Device{root: root, opts: opts}
	// Fail now rather than at the guest's mount.
	s, err := d.newSession()
	if err != nil {
		return nil, err
	}
	d.cur = s
	return d, nil
}

func (d *Device) newSession() (*session, error) {
	fs, err := newLoopback(d.root, &d.opts)
	if err != nil {
		return nil, fmt.Errorf("share %s: %w", d.root, err)
	}
	var disabled uint64
	if d.opts.CloseToOpen {
		disabled = fuse.CAP_AUTO_INVAL_DATA
	}
	return &session{fs: fs, ps: fuse.NewProtocolServer(fs, &fuse.MountOptions{
		MaxWrite: maxWrite,
		// The guest reads ahead at most this much in one request.
		MaxReadAhead: maxWrite,
		// GETXATTR then fails with ENOSYS once and is never sent again;
		// otherwise the guest asks for security.capability on each write.
		DisableXAttrs:        true,
		ExtraCapabilities:    fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_ASYNC_DIO,
		DisabledCapabilities: disabled,
		Logger:               d.opts.Log,
	})}, nil
}

// Features implements vhostuser.Device.
func (d *Device) Features() uint64 { return 0 }

// Queues implements vhostuser.Device: one for FORGET, the rest for requests.
func (d *Device) Queues() int { return 1 + d.opts.RequestQueues }

// Config implements vhostuser.Device: QEMU keeps tag and queue count itself.
func (d *Device) Config() []byte { return nil }

// Reset implements vhostuser.Device.
func (d *Device) Reset() { d.replace(nil) }

// replace makes s the current session and ends the old one.
func (d *Device) replace(s *session) {
	d.mu.Lock()
	old := d.cur
	d.cur = s
	d.mu.Unlock()
	if old != nil {
		go func() { old.ref.Wait(); old.fs.close() }()
	}
}

// HandleQueue implements vhostuser.Device. Each request has its own
// goroutine, so a slow one holds up no other; the ring bounds their number.
func (d *Device) HandleQueue(q *vhostuser.Queue) {
	for {
		c, ok := q.Pop()
		if !ok {
			return
		}
		go func() {
			n := d.handle(c)
			q.Push(c, n)
			q.Notify()
		}()
	}
}

// handle serves one request and returns the length of its reply.
func (d *Device) handle(c *vhostuser.Chain) int {
	if c.OutLen < headerSize || c.OutLen > maxMessage || c.InLen > maxMessage {
		return 0
	}
	out := c.Out
	var hdr [headerSize]byte
	gather(hdr[:], out)
	op := binary.LittleEndian.Uint32(hdr[4:])
	if op != opWrite {
		// Names and the like are checked and then used: take them out of
		// the guest's reach. WRITE's data goes to the file as it is.
		if c.OutLen > maxCopied {
			return 0
		}
		b := make([]byte, c.OutLen)
		gather(b, out)
		out = [][]byte{b}
		op = binary.LittleEndian.Uint32(b[4:])
	}
	if op == opInit {
		s, err := d.newSession()
		if err != nil {
			d.opts.Log.Printf("virtiofs: %v", err)
			return 0
		}
		d.replace(s)
	}
	d.mu.Lock()
	s := d.cur
	if s != nil {
		s.ref.Add(1)
	}
	d.mu.Unlock()
	if s == nil {
		return 0
	}
	defer s.ref.Done()
	n, _ := s.ps.HandleRequest(out, c.In)
	return n
}

// gather fills dst with the first bytes of src.
func gather(dst []byte, src [][]byte) {
	for _, b := range src {
		dst = dst[copy(dst, b):]
	}
}
