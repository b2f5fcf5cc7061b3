package pack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/untar"
)

// Export writes a pack to a .tar.zst archive: the manifest first, then the files. The
// same pack gives the same bytes. Export fails and leaves no archive if a file of the
// pack has changed.
func Export(ctx context.Context, p Pack, path string, report progress.Func) error {
	err := config.WriteWith(path, 0o644, func(w io.Writer) error { return p.write(ctx, w, report) })
	if err != nil {
		return fault.Wrap("export pack", path, err)
	}
	return nil
}

func (p Pack) write(ctx context.Context, w io.Writer, report progress.Func) (err error) {
	// Fastest, because the files are compressed already.
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
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

// bundle is an archive made by Export.
type bundle struct {
	*untar.Reader
	path     string
	manifest Manifest
}

func openBundle(r io.Reader, path string) (*bundle, error) {
	archive, err := untar.NewReader(r, path)
	b := &bundle{Reader: archive, path: path}
	if err == nil {
		err = b.next(ManifestName)
	}
	if err == nil {
		b.manifest, err = readManifest(b)
	}
	if err != nil {
		return nil, fault.Wrap("open pack", path, err).Advise("Name an archive made by `osaurus-sandbox pack export`.")
	}
	return b, nil
}

// next moves to the next file of the archive, which must have this name.
func (b *bundle) next(name string) error {
	h, err := b.Next()
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
	h, err := b.Next()
	switch err {
	case nil:
		return b.rejected(fmt.Errorf("%q is not a file of the pack", h.Name))
	case io.EOF:
		return nil
	}
	return err
}

func (b *bundle) copyFile(ctx context.Context, f File, dir string, report progress.Func) error {
	meter := report.Start("copy "+f.Name, 0, f.Size)
	defer meter.Finish()
	return WriteFile(filepath.Join(dir, f.Name), func(out io.Writer) error {
		_, err := io.Copy(io.MultiWriter(out, meter), newCheckedReader(ctx, b, filepath.Join(b.path, f.Name), f))
		return err
	})
}

const nothingImported = "Nothing was imported. " + getAgain

func (b *bundle) rejected(err error) error {
	return fault.New(fault.Rejected, "import pack", b.path, err).Advise(nothingImported)
}
