package pack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/untar"
)

// Export writes a pack to a .tar.zst archive: the manifest first, then the files. The
// same pack gives the same bytes. Export fails and leaves no archive if a file of the
// pack has changed.
func Export(ctx context.Context, p Pack, path string, report progress.Func) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return fault.New(fault.Execution, "export pack", path, err)
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if err := p.write(ctx, temp, report); err != nil {
		return fault.Wrap("export pack", path, err)
	}
	if err := errors.Join(temp.Chmod(0o644), temp.Sync(), os.Rename(temp.Name(), path)); err != nil {
		return fault.New(fault.Execution, "export pack", path, err)
	}
	return nil
}

func (p Pack) write(ctx context.Context, w io.Writer, report progress.Func) error {
	// Fastest, because the files are compressed already.
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(z)
	text := p.Manifest.text()
	if err := archive.WriteHeader(archiveHeader(ManifestName, int64(len(text)))); err != nil {
		return err
	}
	if _, err := archive.Write(text); err != nil {
		return err
	}
	for _, f := range p.Manifest.Files() {
		if err := p.writeFile(ctx, archive, f, report); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), z.Close())
}

func (p Pack) writeFile(ctx context.Context, archive *tar.Writer, f File, report progress.Func) error {
	in, err := p.Open(ctx, f)
	if err != nil {
		return err
	}
	defer in.Close()
	meter := report.Start("pack "+f.Name, 0, f.Size)
	defer meter.Finish()
	if err := archive.WriteHeader(archiveHeader(f.Name, f.Size)); err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(archive, meter), in)
	return err
}

func archiveHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: tar.FormatPAX}
}

// bundle is a pack to import: a folder or an archive.
type bundle struct {
	path     string
	manifest Manifest
	// next returns the name and content of the next file.
	next  func() (string, io.ReadCloser, error)
	end   func() error // fails if more files follow
	close func()
	seen  map[string]bool
}

func openBundle(path string) (*bundle, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return openArchive(path)
	}
	p, err := Open(path)
	if err != nil {
		return nil, err
	}
	left := p.Manifest.Files()
	next := func() (string, io.ReadCloser, error) {
		f := left[0]
		left = left[1:]
		r, err := os.Open(p.Path(f))
		return f.Name, r, err
	}
	return &bundle{path: path, manifest: p.Manifest, next: next, end: func() error { return nil }, close: func() {}, seen: map[string]bool{}}, nil
}

func openArchive(path string) (*bundle, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap("open pack", path, err)
	}
	b := &bundle{path: path, seen: map[string]bool{}, close: func() { file.Close() }}
	if err := b.openArchive(file); err != nil {
		b.close()
		return nil, fault.Wrap("open pack", path, err).
			Advise("A pack is a folder with a " + ManifestName + ", or an archive made by `osaurus-sandbox pack export`.")
	}
	return b, nil
}

func (b *bundle) openArchive(file *os.File) error {
	archive, err := untar.NewReader(file, b.path)
	if err != nil {
		return err
	}
	b.close = func() { archive.Close(); file.Close() }
	b.next = func() (string, io.ReadCloser, error) {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return "", nil, b.rejected(errors.New("it lacks files of the pack"))
		case err != nil:
			return "", nil, err
		case h.Typeflag != tar.TypeReg:
			return "", nil, b.rejected(fmt.Errorf("%q is not a regular file", h.Name))
		}
		return h.Name, io.NopCloser(archive), nil
	}
	b.end = func() error {
		h, err := archive.Next()
		if err == nil {
			return b.rejected(fmt.Errorf("%q is not a file of the pack", h.Name))
		}
		if err == io.EOF {
			return nil
		}
		return err
	}
	name, r, err := b.next()
	if err == nil && name != ManifestName {
		err = b.rejected(fmt.Errorf("its first file is %q instead of %s", name, ManifestName))
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return err
	}
	b.manifest, err = ParseManifest(text)
	return err
}

// copyNext copies the next file into a folder and checks its digest.
func (b *bundle) copyNext(ctx context.Context, dir string, report progress.Func) error {
	name, r, err := b.next()
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range b.manifest.Files() {
		if f.Name != name || b.seen[name] {
			continue
		}
		b.seen[name] = true
		checked := newCheckedReader(ctx, r, filepath.Join(b.path, name), f)
		if err := writeTo(dir, f, checked, report); err != nil {
			return fault.Wrap("import pack", b.path, err).
				Advise("Nothing was imported. " + getAgain)
		}
		return nil
	}
	return b.rejected(fmt.Errorf("%q is not a file of the pack, or a duplicate", name))
}

func (b *bundle) rejected(err error) error {
	return fault.New(fault.Rejected, "import pack", b.path, err).
		Advise("Nothing was imported. " + getAgain)
}
