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
	return errors.Join(p.writeTar(ctx, z, report), z.Close())
}

func (p Pack) writeTar(ctx context.Context, w io.Writer, report progress.Func) error {
	archive := tar.NewWriter(w)
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
	return archive.Close()
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

// bundle is a pack to import: an archive, or a folder that is read as one.
type bundle struct {
	path     string
	manifest Manifest
	archive  *untar.Reader
	source   io.Closer
}

func openBundle(ctx context.Context, path string) (*bundle, error) {
	source, err := openSource(ctx, path)
	if err != nil {
		return nil, err
	}
	b := &bundle{path: path, source: source}
	if b.archive, err = untar.NewReader(source, path); err == nil {
		err = b.readManifest()
	}
	if err != nil {
		b.close()
		return nil, fault.Wrap("open pack", path, err).
			Advise("A pack is a folder with a " + ManifestName + ", or an archive made by `osaurus-sandbox pack export`.")
	}
	return b, nil
}

func openSource(ctx context.Context, path string) (io.ReadCloser, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		file, err := os.Open(path)
		if err != nil {
			return nil, fault.Wrap("open pack", path, err)
		}
		return file, nil
	}
	p, err := Open(path)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(p.writeTar(ctx, w, nil)) }()
	return r, nil
}

func (b *bundle) close() {
	if b.archive != nil {
		b.archive.Close()
	}
	b.source.Close()
}

func (b *bundle) readManifest() error {
	if err := b.next(ManifestName); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(b.archive, maxManifest+1))
	if err != nil {
		return err
	}
	b.manifest, err = ParseManifest(text)
	return err
}

// next moves to the next file of the archive, which must have this name.
func (b *bundle) next(name string) error {
	h, err := b.archive.Next()
	switch {
	case err == io.EOF:
		return b.rejected(fmt.Errorf("it lacks %q", name))
	case err == nil && (h.Name != name || h.Typeflag != tar.TypeReg):
		return b.rejected(fmt.Errorf("it has %q instead of the file %q", h.Name, name))
	}
	return err
}

// copyFiles copies the pack's files into a folder and checks their digests.
func (b *bundle) copyFiles(ctx context.Context, dir string, report progress.Func) error {
	for _, f := range b.manifest.Files() {
		if err := b.next(f.Name); err != nil {
			return err
		}
		if err := b.copyFile(ctx, f, dir, report); err != nil {
			return fault.Wrap("import pack", b.path, err).Advise(nothingImported)
		}
	}
	h, err := b.archive.Next()
	if err == nil {
		return b.rejected(fmt.Errorf("%q is not a file of the pack", h.Name))
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func (b *bundle) copyFile(ctx context.Context, f File, dir string, report progress.Func) error {
	meter := report.Start("copy "+f.Name, 0, f.Size)
	defer meter.Finish()
	out, err := os.Create(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(out, meter), newCheckedReader(ctx, b.archive, filepath.Join(b.path, f.Name), f))
	return errors.Join(err, out.Close())
}

const nothingImported = "Nothing was imported. " + getAgain

func (b *bundle) rejected(err error) error {
	return fault.New(fault.Rejected, "import pack", b.path, err).Advise(nothingImported)
}
