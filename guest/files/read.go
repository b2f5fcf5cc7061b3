//go:build linux

package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"os"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// Stat describes a file.
func (service) Stat(_ context.Context, r *guestpb.StatFileRequest) (*guestpb.StatFileResponse, error) {
	const op = "look at"
	f, err := open(op, r.File, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is, err := infoOf(f)
	if err != nil {
		return nil, explain(op, shown(r.File), err)
	}
	return &guestpb.StatFileResponse{Info: is}, nil
}

// Read reads a part of a file.
func (service) Read(ctx context.Context, r *guestpb.ReadFileRequest, stream *connect.ServerStream[guestpb.ReadFileResponse]) error {
	const op = "read"
	f, is, err := openFile(op, r.File, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	from, err := seek(ctx, f, is.Size, r)
	if err != nil {
		return explain(op, shown(r.File), err)
	}
	if err := stream.Send(&guestpb.ReadFileResponse{Info: is, Offset: uint64(from)}); err != nil {
		return err
	}
	p := &part{ctx: ctx, stream: stream, left: cmp.Or(r.Limit, math.MaxUint64), lines: r.Lines}
	if err := p.copy(f, max(smallChunk, min(is.Size+1, protocol.FileChunk))); err != nil {
		return explain(op, shown(r.File), err)
	}
	return stream.Send(&guestpb.ReadFileResponse{Truncated: p.truncated})
}

// seek moves to the start of the requested part and returns its offset.
func seek(ctx context.Context, f *os.File, size uint64, r *guestpb.ReadFileRequest) (from int64, err error) {
	switch {
	case r.LastLines > 0:
		from, err = lastLines(ctx, f, r.LastLines)
	case r.FirstLine > 0:
		from, err = skipLines(ctx, f, r.FirstLine-1)
	default:
		from = int64(min(r.Offset, size)) // file systems refuse offsets that are too large
	}
	if err != nil {
		return 0, err
	}
	return f.Seek(from, io.SeekStart)
}

// part copies the requested part of a file within its limits.
type part struct {
	ctx       context.Context
	stream    *connect.ServerStream[guestpb.ReadFileResponse]
	left      uint64 // bytes
	lines     uint64 // that are left; 0 is all
	truncated bool
}

// smallChunk is the chunk size for small files.
const smallChunk = 4 << 10

// copy sends the file from its current offset in chunks of a size.
func (p *part) copy(f io.Reader, size uint64) error {
	for buffer := make([]byte, size); ; {
		n, err := f.Read(buffer)
		data, over := p.take(buffer[:n])
		if len(data) > 0 {
			if err := p.stream.Send(&guestpb.ReadFileResponse{Data: data}); err != nil {
				return err
			}
		}
		if over || err == io.EOF {
			return nil
		}
		if err = cmp.Or(err, p.ctx.Err()); err != nil {
			return err
		}
	}
}

// take returns the bytes that belong to the part, and whether the part ends there.
func (p *part) take(data []byte) (_ []byte, over bool) {
	if p.lines > 0 {
		for at := 0; ; {
			i := bytes.IndexByte(data[at:], '\n')
			if i < 0 {
				break
			}
			at += i + 1
			if p.lines--; p.lines == 0 {
				data, over = data[:at], true
				break
			}
		}
	}
	if uint64(len(data)) > p.left {
		p.truncated = true
		return data[:p.left], true
	}
	p.left -= uint64(len(data))
	return data, over
}

// skipLines returns the offset after n lines, or the end of a file with fewer.
func skipLines(ctx context.Context, f io.Reader, n uint64) (at int64, err error) {
	for r := bufio.NewReaderSize(wanted{ctx, f}, protocol.FileChunk); n > 0; {
		line, err := r.ReadSlice('\n')
		at += int64(len(line))
		switch err {
		case nil:
			n--
		case bufio.ErrBufferFull: // the line goes on
		case io.EOF:
			return at, nil
		default:
			return 0, err
		}
	}
	return at, nil
}

// lastLines returns the offset of the last n lines, reading backwards.
func lastLines(ctx context.Context, f *os.File, n uint64) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, protocol.FileChunk)
	for at := end; at > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		size := min(at, int64(len(buffer)))
		at -= size
		if _, err := f.ReadAt(buffer[:size], at); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		for i := size - 1; i >= 0; i-- {
			if buffer[i] != '\n' || at+i == end-1 { // a newline at the end starts no line
				continue
			}
			if n--; n == 0 {
				return at + i + 1, nil
			}
		}
	}
	return 0, nil
}

// wanted reads until its context ends, because files may be very large.
type wanted struct {
	ctx context.Context
	io.Reader
}

func (w wanted) Read(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Reader.Read(b)
}
