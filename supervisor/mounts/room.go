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

// removing defines what removes a file, a link or an empty folder, if there is one: not every rm has -d.
const removing = `gone() { if [ -e "$1" ] || [ -L "$1" ]; then rm -f -- "$1" 2>/dev/null || rmdir -- "$1"; fi; }; `

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

// view is a mount as its agent sees it. It works as the agent, in the room.
type view struct {
	room engine.Room
	at   string
}

var _ review.View = view{}

// WriteFile implements review.View. The file is replaced by name, so that no link is followed.
func (v view) WriteFile(ctx context.Context, file string, mode fs.FileMode, content io.Reader) error {
	return v.run(ctx, content, `if [ -L "$1" ] || [ -d "$1" ]; then gone "$1"; fi; mkdir -p -- "${1%/*}" && cat >"$1.osaurus$$" && chmod "$2" -- "$1.osaurus$$" && mv -f -- "$1.osaurus$$" "$1"`, file, octal(mode))
}

// Symlink implements review.View.
func (v view) Symlink(ctx context.Context, target, file string) error {
	return v.run(ctx, nil, `gone "$1"; mkdir -p -- "${1%/*}" && ln -s -- "$2" "$1"`, file, target)
}

// Mkdir implements review.View.
func (v view) Mkdir(ctx context.Context, file string, mode fs.FileMode) error {
	return v.run(ctx, nil, `mkdir -p -- "$1" && chmod "$2" -- "$1"`, file, octal(mode))
}

// Chmod implements review.View.
func (v view) Chmod(ctx context.Context, file string, mode fs.FileMode) error {
	return v.run(ctx, nil, `[ -L "$1" ] || chmod "$2" -- "$1"`, file, octal(mode))
}

// Remove implements review.View.
func (v view) Remove(ctx context.Context, file string) error {
	return v.run(ctx, nil, `gone "$1"`, file)
}

// run runs a script in the room, whose first parameter is the path of a file in the mount.
func (v view) run(ctx context.Context, stdin io.Reader, script, file string, args ...string) error {
	var output bytes.Buffer
	exit, err := engine.Run(ctx, v.room, engine.Command{
		Args:  append([]string{"/bin/sh", "-c", removing + script, "sh", path.Join(v.at, file)}, args...),
		Stdin: stdin, Stdout: &output, Stderr: &output, MaxOutput: maxScriptOutput,
	})
	if err == nil && exit.Code != 0 {
		err = fault.Newf(fault.Execution, "write mounted file", file, "%s", printable.Clip(strings.TrimSpace(output.String())))
	}
	return err
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%o", mode.Perm()) }
