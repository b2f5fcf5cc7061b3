package image

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/ext4"
	"osaurus-sandbox/vm/image/pack"
)

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
	f, err := os.Create(filepath.Join(dir, baseName))
	if err != nil {
		return err
	}
	defer f.Close()
	// A guest mounts something on these folders. A base is read-only, so they must exist in it.
	return ext4.Write(ctx, f, archive, name, "osaurus-base", "/dev", "/proc", "/sys", "/run", "/tmp", "/workspace", "/output")
}

// copyKernel copies the pack's kernel, so that the image works without its pack.
func copyKernel(ctx context.Context, p pack.Pack, path string) error {
	in, err := p.Open(ctx, p.Manifest.Kernel)
	if err != nil {
		return err
	}
	defer in.Close()
	return pack.WriteFile(path, func(out io.Writer) error {
		_, err := io.Copy(out, in)
		return err
	})
}
