package mounts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// maxScriptOutput bounds the errors of a script in a room.
const maxScriptOutput = 4 << 10

// upper is what an agent changed in a reviewed mount.
type upper struct {
	Guest
	user config.LinuxUser
	name config.MountName
}

var _ review.Upper = upper{}

// List implements review.Upper.
func (u upper) List(ctx context.Context) iter.Seq2[review.Listed, error] {
	kinds := map[guest.ChangeKind]history.Kind{
		guest.ChangedFile: history.File, guest.ChangedFolder: history.Folder, guest.ChangedLink: history.Link,
		guest.Removed: history.Whiteout, guest.Replaced: history.Opaque, guest.ChangedOther: history.Special,
	}
	return func(yield func(review.Listed, error) bool) {
		for c, err := range u.MountChanges(ctx, u.user, u.name) {
			e := review.Listed{Path: c.Path, Born: c.Made, Entry: history.Entry{
				Kind: kinds[c.Kind], Mode: fs.FileMode(c.Mode) & fs.ModePerm, Size: int64(c.Size), Target: c.Target,
				Mtime: c.Modified.UnixNano(), Ctime: c.Changed.UnixNano(), Inode: c.Inode,
			}}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Open implements review.Upper.
func (u upper) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return u.ReadMountChange(ctx, u.user, u.name, path)
}

// view returns what writes to a mount as its agent, in the room. Files are replaced by name, so that no link is followed.
func view(room engine.Room, at string) review.View {
	return func(ctx context.Context, file string, e history.Entry, content io.Reader) error {
		var output bytes.Buffer
		exit, err := engine.Run(ctx, room, engine.Command{
			Args:  []string{"/bin/sh", "-c", writing, "sh", path.Join(at, file), string(max(e.Kind, '-')), fmt.Sprintf("%o", e.Mode.Perm()), e.Target},
			Stdin: content, Stdout: &output, Stderr: &output, MaxOutput: maxScriptOutput,
		})
		if err == nil && exit.Status() != 0 {
			err = fault.Newf(fault.Execution, "write mounted file", file, "%s", printable.Clip(strings.TrimSpace(output.String())))
		}
		return err
	}
}

// writing makes the file $1 one of kind $2 (see history.Kind; - for none) with mode $3 or as a link to $4. Not every rm has -d.
const writing = `
if [ "$2" = d ] && [ -d "$1" ] && ! [ -L "$1" ]; then exec chmod "$3" -- "$1"; fi
if [ "$2" != f ] || [ -L "$1" ] || [ -d "$1" ]; then
	if [ -e "$1" ] || [ -L "$1" ]; then rm -f -- "$1" 2>/dev/null || rmdir -- "$1" || exit; fi
fi
if [ "$2" != - ]; then mkdir -p -- "${1%/*}" || exit; fi
case "$2" in
d) mkdir -- "$1" && chmod "$3" -- "$1" ;;
l) ln -s -- "$4" "$1" ;;
f) cat >"$1.osaurus$$" && chmod "$3" -- "$1.osaurus$$" && mv -f -- "$1.osaurus$$" "$1" ;;
esac`
