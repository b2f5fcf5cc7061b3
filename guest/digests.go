package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// DigestFiles implements engine.Files. In a folder that does not exist, no file does.
func (c room) DigestFiles(ctx context.Context, folder engine.File, limit uint64, paths []string) ([]engine.FileDigest, error) {
	const op = "look at files"
	list := make([]engine.FileDigest, 0, len(paths))
	for some := range slices.Chunk(paths, protocol.MaxDigests) {
		q := &guestpb.DigestFilesRequest{Folder: filePath(folder), Limit: limit}
		for _, p := range some {
			q.Paths = append(q.Paths, []byte(p))
		}
		a, err := callFile(ctx, c, op, folder, c.files.Digest, q)
		if err != nil {
			return nil, err
		}
		if len(a.Files) != len(some) {
			return nil, fault.Newf(fault.Rejected, op, folder.String(), "the guest answers for other files than were asked for")
		}
		for _, f := range a.Files {
			d := engine.FileDigest{There: f.GetThere()}
			if len(f.GetSha256()) == sha256.Size {
				d.SHA256 = bytes.Clone(f.Sha256)
			}
			list = append(list, d)
		}
	}
	return list, nil
}
