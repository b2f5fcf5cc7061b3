package untar

import (
	"archive/tar"
	"context"
	"io"
)

// Filter copies an archive to w as a plain tar, entry by entry as a Reader
// yields them. The same archive gives the same bytes.
func Filter(ctx context.Context, w io.Writer, r io.Reader, name string) error {
	in, err := NewReader(r, name)
	if err != nil {
		return err
	}
	defer in.Close()
	out := tar.NewWriter(w)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if err == io.EOF {
			return out.Close()
		}
		if err != nil {
			return err
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.Copy(out, in); err != nil {
				return err
			}
		}
	}
}
