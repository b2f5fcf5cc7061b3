package control

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
)

// CopyOut reads a file or folder of an agent's room as a tar archive: see copyfiles.Place.
func (c *Client) CopyOut(ctx context.Context, agent, path string) (io.ReadCloser, error) {
	if err := checkPaths(path); err != nil {
		return nil, err
	}
	stream, err := c.Files.CopyOut(ctx, &controlpb.CopyOutRequest{Agent: agent, Path: path})
	if err != nil {
		return nil, err
	}
	return &copied{stream: stream}, nil
}

// checkPaths refuses paths that are not UTF-8. Names within a folder may be: tar has them.
func checkPaths(paths ...string) error {
	return checkUTF8("copy", "Copy the folder that it is in, or rename it.", paths)
}

// copied reads a stream of messages.
type copied struct {
	stream *connect.ServerStreamForClient[controlpb.CopyOutResponse]
	rest   []byte
}

func (c *copied) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if !c.stream.Receive() {
			if err := c.stream.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		c.rest = c.stream.Msg().Data
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *copied) Close() error { return c.stream.Close() }

// CopyIn writes what copyfiles.Pack packs into an agent's room.
func (c *Client) CopyIn(ctx context.Context, agent, path, name string, pack func(io.Writer) error) error {
	if err := checkPaths(path, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Files.CopyIn(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&controlpb.CopyInRequest{What: &controlpb.CopyInRequest_To{To: &controlpb.CopyInTo{Agent: agent, Path: path, Name: name}}})
	if err == nil {
		err = pack(writer(func(b []byte) (int, error) {
			for sent := 0; sent < len(b); sent += chunk {
				if err := stream.Send(&controlpb.CopyInRequest{What: &controlpb.CopyInRequest_Data{Data: b[sent:min(len(b), sent+chunk)]}}); err != nil {
					return sent, err
				}
			}
			return len(b), nil
		}))
	}
	if err != nil && !errors.Is(err, io.EOF) { // with EOF, the answer has the reason
		return err
	}
	_, err = stream.CloseAndReceive()
	return err
}
