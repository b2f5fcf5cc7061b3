package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/pack"
)

// part is a folder with files of an image and their seal.
type part struct {
	dir  string
	seal seal
}

func (p part) path(name string) string { return filepath.Join(p.dir, name) }

// seal lists the files of a part with their digests.
type seal struct {
	Format int          `json:"format"`
	Files  []sealedFile `json:"files"`
}

type sealedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 is computed from the digests of the file's chunks, so that processors
	// can share the work.
	SHA256 pack.Digest `json:"sha256OfChunks"`
}

const (
	sealName   = "seal.json"
	sealFormat = 1
	// maxSeal bounds a seal in bytes.
	maxSeal = 64 << 10
	// chunkSize is small enough to split a kernel among all processors.
	chunkSize = 1 << 20
)

// newSeal hashes the files of a folder and writes their seal.
func newSeal(ctx context.Context, dir string) (seal, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return seal{}, err
	}
	s := seal{Format: sealFormat}
	for _, e := range entries {
		sum, size, err := hashFile(ctx, filepath.Join(dir, e.Name()))
		if err != nil {
			return seal{}, err
		}
		s.Files = append(s.Files, sealedFile{e.Name(), size, sum})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return seal{}, err
	}
	return s, os.WriteFile(filepath.Join(dir, sealName), append(text, '\n'), 0o600)
}

// openPart reads the seal of a part, but not its files. It fails with fs.ErrNotExist if
// there is no part.
func openPart(dir string) (part, error) {
	p := part{dir: dir}
	f, err := os.Open(p.path(sealName))
	if err != nil {
		return part{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSeal))
	if err != nil {
		return part{}, err
	}
	if err := json.Unmarshal(text, &p.seal); err != nil {
		return part{}, err
	}
	if p.seal.Format != sealFormat {
		return part{}, fmt.Errorf("format %d is not supported, only %d", p.seal.Format, sealFormat)
	}
	return p, nil
}

// digest identifies the content of a part.
func (s seal) digest() pack.Digest {
	words := []string{"seal"}
	for _, f := range s.Files {
		words = append(words, f.Name, fmt.Sprint(f.Size), f.SHA256.String())
	}
	return key(words...)
}

func (p part) verify(ctx context.Context) error {
	const op = "verify image"
	for _, f := range p.seal.Files {
		path := p.path(f.Name)
		sum, _, err := hashFile(ctx, path)
		if err != nil {
			advice := retry
			if broken(err) {
				advice = rebuild
			}
			return fault.Wrap(op, path, err).Advise(advice)
		}
		if sum != f.SHA256 { // which covers the size
			return fault.Newf(fault.Rejected, op, path, "its digest is %s, but it was built with %s", sum, f.SHA256).Advise(rebuild)
		}
	}
	return nil
}

const (
	rebuild = "Rebuild the image with `osaurus-sandbox pack build PACK`. If it happens again, check the disk."
	retry   = "Fix the cause and try again. The image was kept."
)

// hashFile returns a file's digest, see sealedFile, and its size.
func hashFile(ctx context.Context, path string) (pack.Digest, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return pack.Digest{}, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return pack.Digest{}, 0, err
	}
	size := info.Size()
	sums := make([]byte, (size+chunkSize-1)/chunkSize*sha256.Size)
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			buf := make([]byte, chunkSize)
			for at := int64(w) * chunkSize; at < size && errs[w] == nil; at += int64(workers) * chunkSize {
				n, err := f.ReadAt(buf[:min(chunkSize, size-at)], at)
				if errors.Is(err, io.EOF) && at+int64(n) == size {
					err = nil
				}
				errs[w] = cmp.Or(err, ctx.Err())
				sum := sha256.Sum256(buf[:n])
				copy(sums[at/chunkSize*sha256.Size:], sum[:])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return pack.Digest{}, 0, err
		}
	}
	return sha256.Sum256(fmt.Appendf(sums, "%d", size)), size, nil
}
