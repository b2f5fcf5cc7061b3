package untar

import (
	"archive/tar"
	"cmp"
	"context"
	"io"
)

// Walk calls visit for each entry that a Reader returns, and stops at the first error. The
// name is for errors.
func Walk(r io.Reader, name string, visit func(h *tar.Header, content io.Reader) error) error {
	in, err := NewReader(r, name)
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = visit(h, in)
		}
		if err != nil {
			return err
		}
	}
}

// Filter copies the entries that a Reader returns to w as an uncompressed archive. The
// same archive gives the same bytes.
func Filter(ctx context.Context, w io.Writer, r io.Reader, name string) error {
	out := tar.NewWriter(w)
	err := Walk(r, name, func(h *tar.Header, content io.Reader) error {
		if err := cmp.Or(ctx.Err(), out.WriteHeader(h)); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		_, err := io.Copy(out, content)
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}
