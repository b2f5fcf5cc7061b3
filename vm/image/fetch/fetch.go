// Package fetch downloads files that are pinned by digest: over HTTPS only, resumable wherever it was killed, hashed while it is written.
package fetch

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

const (
	// MaxSize bounds a download, whatever its server says: the largest file
	// that is pinned has 88 MB, and a disk is soon full.
	MaxSize = 512 << 20
	// maxAttempts is how often in a row nothing may come before giving up.
	maxAttempts = 5
	// firstPause is how long to wait before the second attempt; it doubles.
	firstPause = time.Second
	// idle is how long a server may stay silent.
	idle = 30 * time.Second
)

// File is what to download.
type File struct {
	URL    string
	Size   int64 // zero where it is not known
	SHA256 pack.Digest
	// Hosts are the hosts besides the URL's own that it may redirect to.
	Hosts []string
}

// name is the file's own, without the folders of its URL.
func (f File) name() (string, error) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", fault.Newf(fault.InvalidArgs, "download", f.URL, "only https URLs are fetched")
	}
	name := path.Base(u.Path)
	if !fs.ValidPath(name) || name == "." {
		return "", fault.Newf(fault.InvalidArgs, "download", f.URL, "it does not end with a file's name")
	}
	return name, nil
}

// limit is how many bytes may come.
func (f File) limit() int64 {
	if f.Size > 0 {
		return f.Size
	}
	return MaxSize
}

// Client downloads into a folder. The zero value of all but Dir is ready.
type Client struct {
	Dir string
	// Transport is nil for one that honours the proxy environment.
	Transport http.RoundTripper
	// Pause and Idle replace the waits before a second attempt and for a
	// silent server, where they are not zero.
	Pause, Idle time.Duration
}

// Get returns the path of the file, which is in the client's folder under its
// own name, and downloads what of it is not there. The digest of what it
// returns has been checked just now. A file with another digest is deleted,
// the error is fault.Rejected, and nothing else is tried. Where the server
// cannot be reached at all, Unreachable tells so. Of several programs one
// downloads and the others wait.
func (c *Client) Get(ctx context.Context, f File, report progress.Func) (string, error) {
	name, err := f.name()
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.Dir, name)
	held, err := pack.AcquireLock(ctx, file+".lock", func(owner string) { report.Note("waiting for " + owner + " to download " + name) })
	if err != nil {
		return "", err
	}
	defer held.Release()
	if _, err := os.Stat(file); err == nil {
		return file, c.verify(ctx, f, file, report)
	}
	d := &download{client: c, file: f, name: name, part: file + ".part", report: report}
	if err := d.run(ctx); err != nil {
		if fault.KindOf(err) == fault.Rejected || d.have == 0 {
			d.remove() // nothing of it is of use
		}
		return "", err
	}
	if err := os.Rename(d.part, file); err != nil {
		return "", fault.New(fault.Execution, "download", f.URL, err)
	}
	d.remove()
	return file, nil
}

// Forget deletes a file that was downloaded.
func (c *Client) Forget(f File) {
	if name, err := f.name(); err == nil {
		os.Remove(filepath.Join(c.Dir, name))
	}
}

// verify checks a file that was downloaded earlier.
func (c *Client) verify(ctx context.Context, f File, path string, report progress.Func) error {
	file, err := os.Open(path)
	if err != nil {
		return fault.Wrap("verify download", path, err)
	}
	defer file.Close()
	meter := report.Start("verify "+filepath.Base(path), 0, f.Size)
	defer meter.Finish()
	got, _, err := pack.DigestOf(ctx, io.TeeReader(file, meter))
	if err != nil {
		return fault.Wrap("verify download", path, err)
	}
	if got != f.SHA256 {
		os.Remove(path)
		return mismatch(f, got)
	}
	return nil
}

func mismatch(f File, got pack.Digest) error {
	return pack.Mismatch("download", f.URL, f.SHA256, got).
		Advise("What came was deleted. Somebody may be changing files on their way here: try from another network, and report it if it happens again.")
}
