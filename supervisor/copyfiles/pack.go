package copyfiles

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Sum is what was moved.
type Sum struct {
	Files int
	Bytes int64
	// LeftOut are files that were not moved, by their names, up to maxLeftOut of them.
	LeftOut []string
}

// maxLeftOut bounds the names that are remembered of what is left out: they are for a person.
const maxLeftOut = 100

func (s *Sum) leaveOut(name string) {
	if len(s.LeftOut) < maxLeftOut {
		s.LeftOut = append(s.LeftOut, name)
	}
}

// Pack writes a parcel for a room, of a file or a folder of this computer, under a name. Links
// in a folder stay what they are and are not followed, whoever changes it meanwhile; what is
// neither a file, a folder nor a link is left out.
func Pack(ctx context.Context, w io.Writer, source, name string) (Sum, error) {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return Sum{}, err
	}
	info, err := os.Stat(source)
	if err != nil {
		return Sum{}, err
	}
	p := packer{ctx: ctx, tar: tar.NewWriter(w)}
	if info.IsDir() {
		err = p.all(source, folder+name)
	} else {
		err = p.one(source, info, folder+name)
	}
	if err != nil {
		return p.sum, err
	}
	return p.sum, p.end()
}

// PackFile is Pack for a file that is open: one at its beginning.
func PackFile(ctx context.Context, w io.Writer, f *os.File, name string) (Sum, error) {
	info, err := f.Stat()
	if err != nil {
		return Sum{}, err
	}
	p := packer{ctx: ctx, tar: tar.NewWriter(w)}
	if err := p.file(f, info, folder+name); err != nil {
		return p.sum, err
	}
	return p.sum, p.end()
}

type packer struct {
	ctx context.Context
	tar *tar.Writer
	sum Sum
}

func (p *packer) end() error {
	return errors.Join(p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: whole, Mode: 0o600, ModTime: time.Now(), Format: tar.FormatGNU}), p.tar.Close())
}

func (p *packer) one(source string, info fs.FileInfo, name string) error {
	if !info.Mode().IsRegular() {
		return fault.Newf(fault.InvalidArgs, "copy", source, "it is neither a file nor a folder").Advise("Copy what it stands for.")
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.file(f, info, name)
}

// all adds a folder and what is in it.
func (p *packer) all(source, name string) error {
	root, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer root.Close()
	return p.below(root, ".", name)
}

// below adds what is at a place below root.
func (p *packer) below(root *os.Root, at, name string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	info, err := root.Lstat(at)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		h := header(info, name+"/", tar.TypeDir)
		h.Mode |= 0o700 // or nothing could be moved out of it
		if err := p.tar.WriteHeader(h); err != nil {
			return err
		}
		list, err := namesIn(root, at)
		if err != nil {
			return err
		}
		for _, entry := range list {
			if err := p.below(root, path.Join(at, entry), path.Join(name, entry)); err != nil {
				return err
			}
		}
		return nil
	case info.Mode().IsRegular():
		f, err := root.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		return p.file(f, info, name)
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := root.Readlink(at)
		if err != nil {
			return err
		}
		h := header(info, name, tar.TypeSymlink)
		h.Linkname = target
		p.sum.Files++
		return p.tar.WriteHeader(h)
	}
	p.sum.leaveOut(at)
	return nil
}

// namesIn are the names of what is in a folder, in whatever bytes: package fs has UTF-8 alone.
func namesIn(root *os.Root, folder string) ([]string, error) {
	f, err := root.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// file adds a file that is open, as large as it was said to be.
func (p *packer) file(f fs.File, info fs.FileInfo, name string) error {
	h := header(info, name, tar.TypeReg)
	h.Size = info.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(reader{p.ctx, f}, h.Size))
	if err == nil && n < h.Size {
		err = fault.Newf(fault.Execution, "copy", info.Name(), "it became shorter meanwhile: %d bytes of %d", n, h.Size).Advise("Copy it when nobody writes to it.")
	}
	p.sum.Files++
	p.sum.Bytes += n
	return err
}

// header is in GNU's format, which busybox reads too. Whose a file is here is of no use there.
func header(info fs.FileInfo, name string, kind byte) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatGNU}
}

// reader reads until its context ends.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
