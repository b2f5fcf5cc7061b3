//go:build linux

package files

import (
	"cmp"
	"context"
	"errors"
	"os"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/files/search"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

// batchBytes is the size of matches after which a message is sent.
const batchBytes = 64 << 10

// Search searches a folder or a file.
func (service) Search(ctx context.Context, r *guestpb.SearchRequest, stream *connect.ServerStream[guestpb.SearchResponse]) error {
	const op = "search"
	f, err := open(op, r.Root, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	limit := func(asked uint32, most int) int { return min(int(cmp.Or(asked, uint32(most))), most) }
	var batch []*guestpb.SearchMatch
	size := 0
	send := func() error {
		err := stream.Send(&guestpb.SearchResponse{Matches: batch})
		batch, size = nil, 0
		return err
	}
	end, err := search.Run(ctx, f, search.Query{
		Pattern: r.Pattern, Names: r.Names, Include: r.Include, IgnoreCase: r.IgnoreCase,
		Context: int(r.Context), Limit: limit(r.Limit, engine.MaxMatches), LineLimit: limit(r.LineLimit, engine.MaxMatchLine),
	}, func(found []search.Match) error {
		for _, m := range found {
			batch = append(batch, &guestpb.SearchMatch{Path: []byte(m.Path), Line: uint64(m.Line), Text: m.Text, Clipped: m.Clipped, Context: m.Context})
			if size += len(m.Path) + len(m.Text); size >= batchBytes {
				if err := send(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if errors.Is(err, search.ErrPattern) {
		return fault.New(fault.InvalidArgs, op, r.Pattern, err)
	}
	if err != nil {
		return explain(op, shown(r.Root), err)
	}
	if len(batch) > 0 {
		if err := send(); err != nil {
			return err
		}
	}
	return stream.Send(&guestpb.SearchResponse{End: &guestpb.SearchEnd{Truncated: end.Truncated, Files: end.Files, Unreadable: end.Unreadable}})
}
