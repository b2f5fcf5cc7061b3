package alpine

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"osaurus-sandbox/vm/image/squashfs"
)

// writeModules converts modloop to a tar and renames modules/RELEASE to
// lib/modules/RELEASE.
func writeModules(ctx context.Context, w io.Writer, modloop *io.SectionReader) error {
	out := tar.NewWriter(w)
	release := ""
	err := squashfs.Walk(modloop, func(name string, size int64, content io.Reader) error {
		rest, ok := strings.CutPrefix(name, "modules/")
		r, _, inRelease := strings.Cut(rest, "/")
		if !ok || !inRelease || r == "firmware" {
			return ctx.Err()
		}
		if release = cmp.Or(release, r); r != release {
			return fmt.Errorf("modloop has the modules of two kernels, %s and %s", release, r)
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "lib/" + name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := cmp.Or(ctx.Err(), out.WriteHeader(h)); err != nil {
			return err
		}
		_, err := io.Copy(out, content)
		return err
	})
	if err == nil && release == "" {
		err = errors.New("modloop has no modules")
	}
	return errors.Join(err, out.Close())
}
