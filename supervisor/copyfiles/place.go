package copyfiles

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/vm/image/untar"
)

// Place unpacks a room's archive into an existing folder or to a new name. It unpacks everything
// beside the destination first. Then files replace files and folders are merged. Place writes
// through no link, and leaves out links that lead out of the copy and anything but files, folders
// and links. The archive's reader must return an error if the archive is incomplete.
func Place(ctx context.Context, archive io.Reader, name, to string) (_ Sum, err error) {
	in, as := to, name
	if info, missing := os.Stat(to); missing != nil || !info.IsDir() {
		if strings.HasSuffix(to, string(filepath.Separator)) {
			return Sum{}, fault.Newf(fault.NotFound, "copy to", to, "there is no such folder").Advise("Make it, or leave out the slash at its end.")
		}
		in, as = filepath.Dir(to), filepath.Base(to)
	}
	root, err := os.OpenRoot(in)
	if err != nil {
		return Sum{}, err
	}
	defer root.Close()
	part := ".osaurus-copy-" + rand.Text()
	if err := root.Mkdir(part, 0o700); err != nil {
		return Sum{}, err
	}
	defer func() { err = errors.Join(err, root.RemoveAll(part)) }()
	inside, err := root.OpenRoot(part)
	if err != nil {
		return Sum{}, err
	}
	defer inside.Close()
	u := unpacker{root: inside, name: name}
	if err := untar.Walk(reader{ctx, archive}, name, u.take); err != nil {
		return u.sum, refused(name, err)
	}
	if !u.begun {
		return u.sum, fault.Newf(fault.Rejected, "copy", name, "the room sent a link that leads elsewhere, or something other than a file").Advise("Copy the link's target.")
	}
	return u.sum, put(root, path.Join(part, name), as)
}

// unpacker unpacks into a temporary folder.
type unpacker struct {
	root  *os.Root
	name  string // the top of the archive
	begun bool
	sum   Sum
}

func (u *unpacker) take(h *tar.Header, content io.Reader) error {
	if h.Name == "." {
		return nil
	}
	if top, _, _ := strings.Cut(h.Name, "/"); top != u.name {
		return fault.Newf(fault.Rejected, "copy", u.name, "the archive contains %q instead", h.Name).Advise("Check the room: its tar may have been replaced.")
	}
	mode := fs.FileMode(h.Mode).Perm()
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		if err = u.root.Mkdir(h.Name, mode|0o700); errors.Is(err, fs.ErrExist) && u.hasFolder(h.Name) {
			err = nil // a folder may be listed twice
		}
	case tar.TypeReg:
		err = u.file(h, mode, content)
	case tar.TypeLink:
		u.sum.Files++
		err = u.root.Link(h.Linkname, h.Name)
	case tar.TypeSymlink:
		if !nofollow.StaysBelow(u.name, h.Name, h.Linkname) {
			u.sum.leaveOut(h.Name)
			return nil
		}
		u.sum.Files++
		err = u.root.Symlink(h.Linkname, h.Name)
	default:
		u.sum.leaveOut(h.Name)
		return nil
	}
	u.begun = true
	if errors.Is(err, fs.ErrExist) { // untar.Walk refuses equal names
		return fault.Newf(fault.Rejected, "copy", h.Name, "this computer's file system treats another name as the same").
			Advise("Rename one of the two in the room, or copy to a file system that tells capitals from small letters.")
	}
	return err
}

// hasFolder reports whether name is a folder and not a link. On a file system that ignores case it
// may be a link of another spelling, which later entries would follow.
func (u *unpacker) hasFolder(name string) bool {
	info, err := u.root.Lstat(name)
	return err == nil && info.IsDir()
}

func (u *unpacker) file(h *tar.Header, mode fs.FileMode, content io.Reader) error {
	f, err := u.root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, content)
	u.sum.Files++
	u.sum.Bytes += n
	return errors.Join(err, f.Close(), u.root.Chtimes(h.Name, h.ModTime, h.ModTime))
}

// put moves from to to, merging folders. Both are below root.
func put(root *os.Root, from, to string) error {
	here, err := root.Lstat(from)
	if err != nil {
		return err
	}
	there, err := root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return root.Rename(from, to)
	case err != nil:
		return err
	case here.IsDir() != there.IsDir():
		return fault.Newf(fault.Rejected, "copy to", to, "a file and a folder cannot replace each other").Advise("Choose another name, or remove what is there.")
	case !here.IsDir() && !there.Mode().IsRegular() && there.Mode().Type() != fs.ModeSymlink:
		return fault.Newf(fault.Rejected, "copy to", to, "it is a pipe or a device").Advise("Choose another name, or copy to - and redirect the output.")
	case !here.IsDir():
		return root.Rename(from, to)
	}
	list, err := namesIn(root, from)
	if err != nil {
		return err
	}
	for _, name := range list {
		if err := put(root, path.Join(from, name), path.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// Print writes the content of a single archived file.
func Print(ctx context.Context, archive io.Reader, name string, w io.Writer) (sum Sum, err error) {
	err = untar.Walk(reader{ctx, archive}, name, func(h *tar.Header, content io.Reader) error {
		if h.Typeflag != tar.TypeReg || h.Name != name {
			return fault.Newf(fault.InvalidArgs, "print", name, "not a file").Advise("Say where to copy it to.")
		}
		sum.Files++
		n, err := io.Copy(w, content)
		sum.Bytes += n
		return err
	})
	return sum, refused(name, err)
}

// refused rewords errors of the archive reader in terms of the copy.
func refused(name string, err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Op != untar.Op {
		return err
	}
	return fault.New(e.Kind, "copy", name, e.Err).Advise("Copy fewer files, or leave this one out.")
}
