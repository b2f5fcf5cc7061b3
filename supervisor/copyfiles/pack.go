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

// Sum counts copied files.
type Sum struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// LeftOut names files that were not copied, up to maxLeftOut.
	LeftOut []string `json:"left_out,omitempty"`
}

// maxLeftOut bounds the names in Sum.LeftOut.
const maxLeftOut = 100

func (s *Sum) leaveOut(name string) {
	if len(s.LeftOut) < maxLeftOut {
		s.LeftOut = append(s.LeftOut, name)
	}
}

// Pack writes a file or folder of this computer as an archive for a room, under a name. Links in a
// folder are copied as links and never followed, even if the folder changes meanwhile. Anything
// but files, folders and links is left out.
func Pack(ctx context.Context, w io.Writer, source, name string) (Sum, error) {
	p := packer{ctx: ctx, tar: tar.NewWriter(w)}
	if err := p.add(source, folder+name); err != nil {
		return p.sum, err
	}
	return p.sum, p.end()
}

// Archive is Pack for an archive that Place unpacks.
func Archive(ctx context.Context, w io.Writer, source, name string) error {
	p := packer{ctx: ctx, tar: tar.NewWriter(w)}
	if err := p.add(source, name); err != nil {
		return err
	}
	return p.tar.Close()
}

// PackFile is Pack for an open file at offset 0.
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

// add adds a file or folder.
func (p *packer) add(source, name string) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		root, err := os.OpenRoot(source)
		if err != nil {
			return err
		}
		defer root.Close()
		return p.below(root, ".", name)
	case !info.Mode().IsRegular():
		return fault.Newf(fault.InvalidArgs, "copy", source, "not a file or folder").Advise("Copy a regular file or a folder.")
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.file(f, info, name)
}

// below adds a path below root.
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
		h.Mode |= 0o700 // so that its files can be moved out
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

// namesIn returns the names in a folder. Unlike package fs it supports names that are not UTF-8.
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

// file adds an open file with the size from info.
func (p *packer) file(f fs.File, info fs.FileInfo, name string) error {
	h := header(info, name, tar.TypeReg)
	h.Size = info.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(reader{p.ctx, f}, h.Size))
	if err == nil && n < h.Size {
		err = fault.Newf(fault.Execution, "copy", info.Name(), "the file became shorter while it was copied: %d of %d bytes", n, h.Size).Advise("Copy it when no program writes to it.")
	}
	p.sum.Files++
	p.sum.Bytes += n
	return err
}

// header uses GNU's format, which busybox supports. It leaves out the owner, which means nothing in the room.
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
