// Package pack manages packs: folders with a kernel, its modules, a root file system and a manifest that pins them by size and digest.
package pack

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/untar"
)

// Pack is a folder with a valid manifest. Use Verify or Pack.Open to check the content of
// its files.
type Pack struct {
	Dir      string
	Manifest Manifest
}

// Open opens the pack in a folder. It reads the manifest and checks the sizes of the
// files, but not their content.
func Open(dir string) (Pack, error) {
	m, err := openManifest(dir)
	if err != nil {
		return Pack{}, err
	}
	if err := CheckSizes("open pack", dir, m.Files()); err != nil {
		return Pack{}, fault.Wrap("", "", err).Advise(getAgain)
	}
	return Pack{Dir: dir, Manifest: m}, nil
}

// getAgain is the advice for a damaged file when its origin is unknown.
const getAgain = "Get it again from where it came from."

const adviseForm = "A pack is a folder with a " + ManifestName + ", or an archive made by `osaurus-sandbox pack export`."

func openManifest(dir string) (Manifest, error) {
	name := filepath.Join(dir, ManifestName)
	f, err := os.Open(name)
	if err != nil {
		return Manifest{}, fault.Wrap("open pack", dir, err).Advise(adviseForm)
	}
	defer f.Close()
	m, err := readManifest(f)
	if err != nil {
		return Manifest{}, fault.Wrap("open pack", name, err).Advise(getAgain)
	}
	return m, nil
}

func readManifest(r io.Reader) (Manifest, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return Manifest{}, err
	}
	return ParseManifest(text)
}

// Path returns the path of a file of the pack.
func (p Pack) Path(f File) string { return filepath.Join(p.Dir, f.Name) }

// Digest identifies the content of the pack. See Manifest.Digest.
func (p Pack) Digest() Digest { return p.Manifest.Digest() }

// Open opens a file of the pack for reading until the context ends. If its content is not
// what the manifest pins, Read returns an error instead of io.EOF.
func (p Pack) Open(ctx context.Context, f File) (io.ReadCloser, error) {
	r, err := f.open(ctx, p.Dir)
	if err != nil {
		return nil, fault.Wrap("open pack file", p.Path(f), err)
	}
	return r, nil
}

// Walk calls visit for the entries of one of the pack's archives. It fails if the file is
// not what the manifest pins.
func (p Pack) Walk(ctx context.Context, f File, visit func(*tar.Header, io.Reader) error) error {
	file, err := p.Open(ctx, f)
	if err != nil {
		return err
	}
	defer file.Close()
	return untar.Walk(file, p.Path(f), visit)
}

// Verify reads all files of the pack. It fails with fault.Rejected if one is not what the
// manifest pins.
func (p Pack) Verify(ctx context.Context, report progress.Func) error {
	err := VerifyFiles(ctx, "verify pack", p.Dir, p.Manifest.Files(), report)
	if fault.KindOf(err) == fault.Rejected {
		err = fault.Wrap("", "", err).Advise("Remove the pack with `osaurus-sandbox pack remove`, and build or import it again.")
	}
	return err
}

// Seal makes a folder a pack: it adds the sizes and digests of the files to m and writes
// the manifest.
func Seal(ctx context.Context, dir string, m Manifest) (Pack, error) {
	m.Format = format
	for _, f := range []*File{&m.Kernel, &m.Modules, &m.Root} {
		var err error
		if *f, err = PinFile(ctx, dir, f.Name); err != nil {
			return Pack{}, fault.Wrap("seal pack", dir, err)
		}
	}
	if err := m.check(); err != nil {
		return Pack{}, fault.New(fault.InvalidArgs, "seal pack", dir, err)
	}
	return Pack{Dir: dir, Manifest: m}, writeManifest(dir, m)
}

func (m Manifest) text() []byte {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // plain data always marshals
	}
	return append(text, '\n')
}

func writeManifest(dir string, m Manifest) error {
	name := filepath.Join(dir, ManifestName)
	if err := os.WriteFile(name, m.text(), 0o644); err != nil {
		return fault.New(fault.Execution, "write pack manifest", name, err)
	}
	return nil
}

// WriteZstd writes a file compressed with zstd and reports the step's progress. The same
// content gives the same bytes.
func WriteZstd(path, step string, report progress.Func, write func(io.Writer) error) error {
	meter := report.Start(step, 0, 0)
	defer meter.Finish()
	return WriteFile(path, func(out io.Writer) error {
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		return errors.Join(write(io.MultiWriter(z, meter)), z.Close())
	})
}

// WriteFile writes a file.
func WriteFile(path string, write func(io.Writer) error) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}
