//go:build linux

package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/clone"
)

// Export writes the layers of a room, which may run, as an archive for Import: the bottom one first, each
// in a folder of its name.
func (s *Store) Export(user string, to io.Writer) error {
	st, err := s.Read(user)
	if err != nil {
		return err
	}
	all := append(st.Lower, st.Upper)
	return writeTar(to, func(t *exporter) error {
		for _, id := range all {
			if err := t.tree(s.Path(id), string(id)); err != nil {
				return err
			}
		}
		for _, id := range all {
			if _, err := os.Lstat(s.Path(id)); err != nil {
				return fmt.Errorf("the room was reset or restored meanwhile: %w", err)
			}
		}
		return nil
	})
}

// Import unpacks an archive as the frozen layers of a room that was never used. Anyone may have written the
// archive. Files of the user who wrote a layer get the room's user. Reading must fail if the archive is cut
// off. After an error, the room must be removed.
func (s *Store) Import(user string, from io.Reader) error {
	st, err := s.Read(user)
	if err != nil {
		return err
	}
	in := importer{Store: s, user: user, st: st, tar: tar.NewReader(from)}
	defer func() { _ = in.finish() }()
	for {
		h, err := in.tar.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch top, name, _ := strings.Cut(h.Name, "/"); {
		case name == "":
			err = in.layer(ID(top))
		case in.root == nil || ID(top) != in.was:
			err = errors.New("it is outside of the layer before it")
		default:
			err = in.entry(strings.TrimSuffix(name, "/"), h)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
	if _, err := io.CopyN(io.Discard, from, 1); err != io.EOF {
		return errors.New("data follows the end of the archive")
	}
	return errors.Join(in.finish(), clone.Sync(s.Data))
}

// importer unpacks layers. Their names are hostile: only os.Root follows them.
type importer struct {
	*Store
	user  string
	st    *Stack
	tar   *tar.Reader
	was   ID                   // the layer's name in the archive
	root  *os.Root             // of the layer
	times map[string]time.Time // of the folders in it
}

// layer begins a layer. The stack has it first, or it could be discarded.
func (in *importer) layer(was ID) error {
	if len(in.st.Lower) > maxLower {
		return fmt.Errorf("there are more than %d layers", maxLower+1)
	}
	id := newID(in.st.Upper.UID())
	in.st.Lower = append(in.st.Lower, id)
	err := errors.Join(in.finish(), in.Write(in.user, in.st), os.Mkdir(in.Path(id), 0o755), in.Own(in.Path(id), id.UID()))
	if err == nil {
		in.was, in.times = was, map[string]time.Time{}
		in.root, err = os.OpenRoot(in.Path(id))
	}
	return err
}

// finish ends a layer.
func (in *importer) finish() (err error) {
	if in.root == nil {
		return nil
	}
	for name, t := range in.times {
		err = errors.Join(err, in.root.Chtimes(name, time.Time{}, t))
	}
	err = errors.Join(err, in.root.Close())
	in.root = nil
	return err
}

// entry creates what a header describes. Nothing may have the name yet.
func (in *importer) entry(name string, h *tar.Header) error {
	if !filepath.IsLocal(name) || path.Clean(name) != name {
		return errors.New("the name is not clean")
	}
	if h.Typeflag == tar.TypeLink {
		top, old, _ := strings.Cut(h.Linkname, "/")
		if ID(top) != in.was {
			return errors.New("it is a link to another layer")
		}
		return in.root.Link(old, name)
	}
	dir, err := in.root.OpenFile(path.Dir(name), unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	at := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path.Base(name)) // its last part is never followed
	switch {
	case h.Typeflag == tar.TypeDir:
		err = os.Mkdir(at, 0o700)
		in.times[name] = h.ModTime
	case h.Typeflag == tar.TypeReg:
		err = in.content(at)
	case h.Typeflag == tar.TypeSymlink:
		err = os.Symlink(h.Linkname, at)
	case h.Typeflag == tar.TypeFifo:
		err = unix.Mkfifo(at, 0o600)
	case h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0: // it hides what is below
		err = unix.Mknod(at, unix.S_IFCHR, 0)
	default:
		err = errors.New("it is neither a file, a folder, a link nor a pipe")
	}
	if err != nil {
		return err
	}
	owner := func(id int) int {
		if id == int(in.was.UID()) {
			return int(in.st.Upper.UID())
		}
		return id
	}
	if err = os.Lchown(at, owner(h.Uid), owner(h.Gid)); h.Typeflag != tar.TypeSymlink {
		err = errors.Join(err, os.Chmod(at, h.FileInfo().Mode()))
	}
	for key, value := range h.PAXRecords {
		switch attribute, is := strings.CutPrefix(key, attributePrefix); {
		case is && carried(attribute):
			err = errors.Join(err, unix.Lsetxattr(at, attribute, []byte(value), 0))
		case is:
			err = fmt.Errorf("it has the attribute %q", attribute)
		}
	}
	modified, failed := unix.TimeToTimespec(h.ModTime)
	return errors.Join(err, failed, unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{modified, modified}, unix.AT_SYMLINK_NOFOLLOW))
}

func (in *importer) content(at string) error {
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in.tar)
	return errors.Join(err, f.Close())
}
