package alpine

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"osaurus-sandbox/vm/image/squashfs"
)

const (
	// maxModules bounds the files of a kernel's modules; there are 1,500.
	maxModules = 50_000
	// maxModuleBytes bounds them together; they have 100 MB.
	maxModuleBytes = 1 << 30
)

// writeModules turns the image of modules, which has them under modules, into
// a tar that has them under lib/modules.
func writeModules(ctx context.Context, w io.Writer, image *io.SectionReader) error {
	modloop, err := squashfs.New(image, image.Size())
	if err != nil {
		return err
	}
	release, err := findRelease(modloop)
	if err != nil {
		return err
	}
	m := &modulesWriter{modloop: modloop, out: tar.NewWriter(w)}
	err = fs.WalkDir(modloop, "modules/"+release, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err // folders are put in where they are missing, links lead to sources
		}
		return errors.Join(ctx.Err(), m.write(name))
	})
	return errors.Join(err, m.out.Close())
}

// findRelease finds the one folder of modules, beside which there may be
// firmware.
func findRelease(modloop fs.FS) (string, error) {
	deps, err := fs.Glob(modloop, "modules/*/modules.dep")
	if err != nil {
		return "", err
	}
	if len(deps) != 1 {
		return "", fmt.Errorf("modloop has the modules of %d kernels", len(deps))
	}
	return path.Base(path.Dir(deps[0])), nil
}

type modulesWriter struct {
	modloop fs.FS
	out     *tar.Writer
	files   int
	bytes   int64
}

func (m *modulesWriter) write(name string) error {
	f, err := m.modloop.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m.files++
	m.bytes += info.Size()
	if m.files > maxModules || m.bytes > maxModuleBytes {
		return fmt.Errorf("modloop has more than %d modules or %d bytes", maxModules, int64(maxModuleBytes))
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "lib/" + name, Size: info.Size(), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if err := m.out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(m.out, f)
	return err
}
