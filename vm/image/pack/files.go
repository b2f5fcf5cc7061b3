package pack

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

// File is one file of a folder, pinned by size and digest.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 Digest `json:"sha256"`
}

// PinFile returns a file of a folder with its size and digest.
func PinFile(ctx context.Context, dir, name string) (File, error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	h := sha256.New()
	n, err := io.Copy(h, contextReader{ctx, file})
	return File{name, n, Digest(h.Sum(nil))}, err
}

// CheckSizes fails with fault.Rejected if one of the files does not have its size, and
// with fs.ErrNotExist if it is missing.
func CheckSizes(op, dir string, files []File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return fault.Wrap(op, path, err)
		case !info.Mode().IsRegular():
			return fault.Newf(fault.Rejected, op, path, "it is %s, not a regular file", info.Mode().Type())
		case info.Size() != f.Size:
			return fault.Newf(fault.Rejected, op, path, "it has %d bytes, but %d are pinned", info.Size(), f.Size)
		}
	}
	return nil
}

// VerifyFiles reads the files and fails with fault.Rejected if one has changed.
func VerifyFiles(ctx context.Context, op, dir string, files []File, report progress.Func) error {
	for _, f := range files {
		if err := f.verify(ctx, dir, report); err != nil {
			return fault.Wrap(op, filepath.Join(dir, f.Name), err)
		}
	}
	return nil
}

func (f File) verify(ctx context.Context, dir string, report progress.Func) error {
	r, err := f.open(ctx, dir)
	if err != nil {
		return err
	}
	defer r.Close()
	meter := report.Start("verify "+f.Name, 0, f.Size)
	defer meter.Finish()
	_, err = io.Copy(meter, r)
	return err
}

// open opens a file for reading until the context ends. If its content is not the pinned
// one, Read returns an error instead of io.EOF.
func (f File) open(ctx context.Context, dir string) (io.ReadCloser, error) {
	path := filepath.Join(dir, f.Name)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{newCheckedReader(ctx, file, path, f), file}, nil
}
