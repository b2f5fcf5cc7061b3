//go:build linux

package fs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

// stream sends requests to a server over a stream, and returns each reply to who sent its request.
type stream struct {
	conn   net.Conn
	served chan error // what Serve returns

	sending sync.Mutex
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan []byte
}

func newStream(t testing.TB, d *Server) *stream {
	ours, theirs := net.Pipe()
	s := &stream{conn: ours, served: make(chan error, 1), waiting: map[uint64]chan []byte{}}
	go func() { s.served <- d.Serve(context.Background(), theirs) }()
	received := make(chan struct{})
	go func() {
		defer close(received)
		for {
			reply, err := readReply(ours)
			if err != nil {
				return
			}
			s.mu.Lock()
			to := s.waiting[binary.LittleEndian.Uint64(reply[8:])]
			s.mu.Unlock()
			to <- reply
		}
	}()
	t.Cleanup(func() {
		ours.Close()
		if err := <-s.served; err != nil {
			t.Error(err)
		}
		<-received
	})
	return s
}

func readReply(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.LittleEndian.Uint32(size[:]))
	copy(b, size[:])
	_, err := io.ReadFull(from, b[len(size):])
	return b, err
}

// raw sends a request and returns its reply, which is empty if there is none.
func (s *stream) raw(t testing.TB, request []byte) []byte {
	request = bytes.Clone(request)
	reply := make(chan []byte, 1)
	s.mu.Lock()
	s.last++
	s.waiting[s.last] = reply
	binary.LittleEndian.PutUint32(request, uint32(len(request)))
	binary.LittleEndian.PutUint64(request[8:], s.last)
	s.mu.Unlock()
	s.sending.Lock()
	_, err := s.conn.Write(request)
	s.sending.Unlock()
	if err != nil {
		t.Error(err)
		return nil
	}
	if readHeader([][]byte{request}).op.operation().silent {
		s.raw(t, message[none](opStatFS, root, nil)) // is answered after it
		return nil
	}
	return <-reply
}

// The tests of confinement and of what a guest may do, with requests that come over a stream.
func TestOverStream(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"InvalidNames": TestInvalidNames, "SwappedLinks": TestSwappedLinks, "FolderMovedOut": TestFolderMovedOut,
		"KindsOfFiles": TestKindsOfFiles, "ReadOnly": TestReadOnly, "Depth": TestDepth,
		"Append": TestAppend, "KeepCache": TestKeepCache, "RenamedFolder": TestRenamedFolder, "OpenReplaced": TestOpenReplaced,
		"SubtreeOwners": TestSubtreeOwners, "Modes": TestOwnersAndModesOnTheHost, "ByteLimit": TestByteLimit, "RemovedButOpen": TestRemovedButOpen,
		"RemovedButKnown": TestRemovedButKnown, "RemovedFolder": TestRemovedButOpenFolder, "SymlinkCaching": TestSymlinkCaching, "Lower": TestLower,
	} {
		t.Run(name, test)
	}
}

// The guest opens the files of a lower layer without asking, and reads them by their nodes.
func TestLower(t *testing.T) {
	c := newClient(t, vm.Share{ReadOnly: true}, Options{Lower: true})
	c.host("f", "text")
	f := must(c.walk("f"))(t)
	want(t, "open", second(c.open(f.NodeId, unix.O_RDONLY)), unix.ENOSYS)
	read := func() (string, error) {
		b, err := c.request(opRead, f.NodeId, bytesOf(&fuse.ReadIn{Size: 100})[inHeaderSize:], 100)
		return string(b), err
	}
	if text, err := read(); text != "text" || err != nil {
		t.Errorf("read: %q, %v", text, err)
	}
	c.host("new", "other")
	if err := os.Rename(filepath.Join(c.dir, "new"), filepath.Join(c.dir, "f")); err != nil {
		t.Fatal(err)
	}
	want(t, "read what was replaced", second(read()), unix.ESTALE)
	f = must(c.walk("f"))(t)
	if text, err := read(); text != "other" || err != nil {
		t.Errorf("read: %q, %v", text, err)
	}
}

// A stream that ends, at any place, ends what it served.
func TestStreamEnds(t *testing.T) {
	before := openFiles(t)
	c := newClient(t, vm.Share{}, Options{})
	request := message(opInit, root, &fuse.InitIn{Major: 7, Minor: 36})
	long := message[none](opLookup, root, nil, "x")
	binary.LittleEndian.PutUint32(long, maxMessage+1)
	short := message[none](opLookup, root, nil, "x")
	binary.LittleEndian.PutUint32(short, uint32(inHeaderSize-1))
	for _, tc := range []struct {
		what string
		sent []byte
		want error
		kind fault.Kind
	}{
		{"nothing", nil, nil, ""},
		{"half a request", request[:9], io.ErrUnexpectedEOF, ""},
		{"half a length", request[:3], nil, ""},
		{"a long request", long, nil, fault.Rejected},
		{"a short request", short, nil, fault.Rejected},
	} {
		ours, theirs := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- c.dev.Serve(context.Background(), theirs) }()
		_, _ = ours.Write(request)
		if _, err := readReply(ours); err != nil {
			t.Fatal(err)
		}
		_, _ = ours.Write(tc.sent)
		if tc.kind == "" {
			ours.Close()
		}
		if err := <-served; err != tc.want && tc.kind == "" || tc.kind != "" && fault.KindOf(err) != tc.kind {
			t.Errorf("%s: %v", tc.what, err)
		}
		ours.Close()
		want(t, "after "+tc.what, second(c.lookup(root, "x")), errNotMounted)
	}
	// The context ends it while the guest takes no replies.
	ctx, cancel := context.WithCancel(context.Background())
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- c.dev.Serve(ctx, theirs) }()
	_, _ = ours.Write(request)
	cancel()
	if err := <-served; err != context.Canceled {
		t.Error(err)
	}
	c.dev.Close()
	timetest.Eventually(t, "all files are closed", func() bool { return openFiles(t) <= before })
}

// Data must be the same in requests of each size, many at once.
func TestDataOverStream(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.stream = newStream(t, c.dev)
	c.mount()
	f := must(c.create(root, "f"))(t)
	data := make([]byte, 2*maxData+5000)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	for off := 0; off < len(data); off += maxData {
		want(t, "write", c.write(f.Fh, uint64(off), data[off:min(len(data), off+maxData)], 0), nil)
	}
	if b, err := os.ReadFile(filepath.Join(c.dir, "f")); err != nil || !bytes.Equal(b, data) {
		t.Fatalf("the host reads %d bytes, %v", len(b), err)
	}
	var all sync.WaitGroup
	for _, size := range []int{1, 4096, maxCachedRead, maxCachedRead + 1, maxData} {
		for off := 0; off < len(data); off += 1 + len(data)/7 {
			all.Go(func() {
				b, err := c.read(f.Fh, uint64(off), size)
				if expect := data[off:min(off+size, len(data))]; err != nil || !bytes.Equal(b, expect) {
					t.Errorf("read %d bytes at %d: %d bytes, %v", size, off, len(b), err)
				}
			})
		}
	}
	all.Wait()
}

// running returns the number of goroutines in a function.
func running(name string) int {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	return strings.Count(all.String(), name+"(")
}

// Requests that wait for the disk must use limited threads and memory, and not delay others before
// that.
func TestSlowRequestsBounded(t *testing.T) {
	const atOnce, asked = 4, 10
	unlink := func(n int) []byte { return message[none](opUnlink, 2, nil, fmt.Sprint(n)) }
	each := len(unlink(0)) + smallReply
	for name, tc := range map[string]struct {
		bounded func(*Server) **semaphore.Weighted
		most    int
	}{
		"threads": {func(d *Server) **semaphore.Weighted { return &d.slow }, atOnce},
		"memory":  {func(d *Server) **semaphore.Weighted { return &d.memory }, atOnce*each + each - 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimited(t, 0, 100)
			for n := range asked {
				l.host(fmt.Sprint("home/", n), "")
			}
			bounded := semaphore.NewWeighted(int64(tc.most))
			*tc.bounded(l.dev) = bounded
			s := newStream(t, l.dev)
			l.stream = s
			l.mount()
			must(l.lookup(root, "home"))(t)
			unlock := l.usage().lockNames() // as if the disk were slow
			var all sync.WaitGroup
			ask := func(n int) {
				all.Go(func() {
					if reply := s.raw(t, unlink(n)); len(reply) != outHeaderSize || reply[4] != 0 {
						t.Errorf("unlink: %v", reply)
					}
				})
			}
			for n := range atOnce - 1 {
				ask(n)
			}
			timetest.Eventually(t, "they work", func() bool { return running("fs.(*session).Unlink") == atOnce-1 })
			must(l.lookup(root, "home"))(t)
			for n := atOnce - 1; n < asked; n++ {
				ask(n)
			}
			timetest.Eventually(t, "as many work as may at once, and the others wait", func() bool {
				return running("semaphore.(*Weighted).Acquire") == 1 && running("fs.(*session).Unlink") == atOnce
			})
			unlock()
			all.Wait()
			timetest.Eventually(t, "all is given back", func() bool { return bounded.TryAcquire(int64(tc.most)) })
		})
	}
}

// FuzzStream serves arbitrary bytes. They must end with the stream, and touch nothing outside of the
// folder.
func FuzzStream(f *testing.F) {
	mount := message(opInit, root, &fuse.InitIn{Major: 7, Minor: 36})
	f.Add(append(bytes.Clone(mount), message[none](opLookup, root, nil, "../secret")...))
	f.Add(append(bytes.Clone(mount), message(opRead, 2, &fuse.ReadIn{Fh: 1, Size: 1 << 31})...))
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		out := newOutside(t)
		share := filepath.Join(out.dir, "share")
		if err := os.Mkdir(share, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := New(vm.Share{Path: share}, Options{Files: minFiles})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		ours, theirs := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- d.Serve(context.Background(), theirs) }()
		go io.Copy(io.Discard, ours)
		_, _ = ours.Write(data)
		ours.Close()
		<-served
		if err := os.RemoveAll(share); err != nil {
			t.Fatal(err)
		}
		out.check(t)
	})
}
