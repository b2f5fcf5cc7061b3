//go:build linux

package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
)

// atOnce is how many files are read in parallel, which hides the latency of a share.
const atOnce = 8

// Digest returns the digests of files.
func (service) Digest(ctx context.Context, r *guestpb.DigestFilesRequest) (*guestpb.DigestFilesResponse, error) {
	const op = "look at files"
	if err := protocol.CheckDigests(r); err != nil {
		return nil, err
	}
	answer := &guestpb.DigestFilesResponse{Files: make([]*guestpb.FileDigest, len(r.Paths))}
	for n := range answer.Files {
		answer.Files[n] = &guestpb.FileDigest{}
	}
	folder, err := open(op, r.Folder, unix.O_PATH|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return answer, nil
	case err != nil:
		return nil, err
	}
	defer folder.Close()
	var next atomic.Int64
	var work sync.WaitGroup
	failed := make([]error, atOnce)
	for worker := range failed {
		work.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(answer.Files) || failed[worker] != nil || ctx.Err() != nil {
					return
				}
				failed[worker] = explain(op, string(r.Paths[n]), digest(ctx, folder, string(r.Paths[n]), r.Limit, answer.Files[n]))
			}
		})
	}
	work.Wait()
	for _, err := range append(failed, ctx.Err()) {
		if err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// digest fills in one file's digest. An unreadable file exists but has no digest.
func digest(ctx context.Context, folder *os.File, rel string, limit uint64, to *guestpb.FileDigest) error {
	f, err := lookUp(int(folder.Fd()), rel, os.O_RDONLY, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		return nil
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EACCES):
		to.There = true
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	is, err := infoOf(f)
	if err != nil || is.Kind != string(engine.RegularFile) {
		return err
	}
	to.There = true
	if is.Size > limit {
		return nil
	}
	sum := sha256.New()
	// A file that grows meanwhile is read up to its old size; the digest differs anyway.
	if _, err := io.Copy(sum, io.LimitReader(wanted{ctx, f}, int64(is.Size))); err != nil {
		return err
	}
	to.Sha256 = sum.Sum(nil)
	return nil
}
