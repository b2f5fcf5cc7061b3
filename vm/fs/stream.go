package fs

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"osaurus-sandbox/internal/fault"
)

const (
	// smallReply holds every reply without a size in its request. The longest is a link's target.
	smallReply = 8 << 10
	// streamBuffer holds many small requests.
	streamBuffer = 64 << 10
)

// Serve answers the FUSE requests of one mount until the stream or ctx ends, and closes the stream.
// Each request and reply begins with its length. It returns nil if the stream ended between two
// requests. A second call waits for the first.
func (d *Server) Serve(ctx context.Context, stream io.ReadWriteCloser) error {
	s := &streamServer{server: d, stream: stream}
	d.serving.Lock()
	defer d.serving.Unlock()
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	err := s.run()
	_ = stream.Close()
	s.slow.Wait()
	d.Unmount()
	return cmp.Or(ctx.Err(), err)
}

// streamServer serves one stream.
type streamServer struct {
	server *Server
	stream io.ReadWriteCloser
	slow   sync.WaitGroup // requests on goroutines
	mu     sync.Mutex     // held to write a reply
}

// run reads requests. While too many wait for the disk, it reads no more.
func (s *streamServer) run() error {
	from := bufio.NewReaderSize(s.stream, streamBuffer)
	var space []byte // for replies to fast requests
	for {
		request, err := readRequest(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out := [][]byte{request}
		need := replySpace(readHeader(out).op, out)
		if len(space) < need && need <= maxCachedRead+outHeaderSize {
			space = make([]byte, need)
		}
		r := Request{Out: out, OutLen: len(request), InLen: need}
		if len(space) >= need {
			r.In = [][]byte{space[:need]}
			n, done := s.server.HandleCached(r)
			if !done && !r.Slow() {
				n, done = s.server.Handle(r), true
			}
			if done {
				if err := s.reply(space[:n]); err != nil {
					return err
				}
				continue
			}
		}
		done := s.server.Admit(r)
		s.slow.Go(func() {
			defer done()
			reply := make([]byte, need)
			r.In = [][]byte{reply}
			if s.reply(reply[:s.server.Handle(r)]) != nil {
				_ = s.stream.Close()
			}
		})
	}
}

func (s *streamServer) reply(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.stream.Write(b)
	return err
}

// readRequest reads one request. It returns io.EOF at the end of the stream, also within a length.
func readRequest(from *bufio.Reader) ([]byte, error) {
	size, err := from.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size)
	if n < uint32(inHeaderSize) || n > maxMessage {
		return nil, fault.Newf(fault.Rejected, "serve mount", "", "a request of %d bytes", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(from, b)
	return b, err
}

// replySpace returns the size of the largest reply to a request, at most maxMessage.
func replySpace(op opcode, request [][]byte) int {
	if op == opRead || op == opReadDir || op == opReadDirPlus {
		return outHeaderSize + int(min(argument[fuse.ReadIn](request).Size, maxData))
	}
	return smallReply
}
