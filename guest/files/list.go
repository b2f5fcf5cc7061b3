//go:build linux

package files

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// List lists a folder.
func (service) List(ctx context.Context, r *guestpb.ListFolderRequest) (*guestpb.ListFolderResponse, error) {
	const op = "list"
	f, err := open(op, r.Folder, os.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := int(r.Limit)
	if limit == 0 || limit > engine.MaxFolderEntries {
		limit = engine.MaxFolderEntries
	}
	names, more, err := firstNames(ctx, f, limit)
	if err != nil {
		return nil, explain(op, shown(r.Folder), err)
	}
	answer := &guestpb.ListFolderResponse{Truncated: more}
	targets := protocol.MaxTargets
	for _, name := range names {
		e := &guestpb.FolderEntry{Name: []byte(name)}
		var st unix.Stat_t
		switch err := unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
		case errors.Is(err, unix.ENOENT):
			continue // deleted meanwhile
		case err != nil:
			e.Info = &guestpb.FileInfo{}
		default:
			e.Info = info(&st)
		}
		if e.Info.Kind == string(engine.Link) {
			if to, _ := readLink(int(f.Fd()), name); len(to) <= targets { // targets that are too long are left out
				e.Target = []byte(to)
				targets -= len(to)
			}
		}
		answer.Entries = append(answer.Entries, e)
	}
	return answer, nil
}

// firstNames returns the first names of a folder in sorted order. It reads all but keeps little
// more than twice the limit.
func firstNames(ctx context.Context, f *os.File, limit int) (names []string, more bool, err error) {
	const batch = 1024
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		some, err := f.Readdirnames(batch)
		names = append(names, some...)
		if len(names) >= 2*limit+batch || err != nil {
			slices.SortFunc(names, strings.Compare)
			if len(names) > limit {
				names, more = names[:limit], true
			}
		}
		if err == io.EOF {
			return names, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}
