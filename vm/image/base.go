package image

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/ext4"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/untar"
)

// mountPoints returns the directories that a guest mounts something on. A base is
// read-only, so they must exist in it.
func mountPoints() []string {
	return []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/workspace", "/output"}
}

// buildBase writes the base from a pack's root file system.
func buildBase(ctx context.Context, p pack.Pack, dir string, report progress.Func) error {
	root := p.Manifest.Root
	packed, err := p.Open(ctx, root)
	if err != nil {
		return err
	}
	defer packed.Close()
	meter := report.Start("build "+baseName, 0, root.Size)
	defer meter.Finish()
	return WriteBase(ctx, io.TeeReader(packed, meter), p.Path(root), dir)
}

// WriteBase writes a base to a folder from a tar archive, which need not be trusted. It
// reads the archive to its end. The name is for errors.
func WriteBase(ctx context.Context, archive io.Reader, name, dir string) error {
	safe, err := untar.NewReader(archive, name)
	if err != nil {
		return err
	}
	defer safe.Close()
	f, err := os.Create(filepath.Join(dir, baseName))
	if err != nil {
		return err
	}
	defer f.Close()
	return ext4.Write(ctx, f, safe, "osaurus-base", mountPoints()...)
}

// copyKernel copies the pack's kernel, so that the image works without its pack.
func copyKernel(ctx context.Context, p pack.Pack, path string) error {
	in, err := p.Open(ctx, p.Manifest.Kernel)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, in)
	return err
}
