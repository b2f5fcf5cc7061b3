// Package fetch downloads files pinned by digest, over HTTPS only. Interrupted downloads resume.
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
	// MaxSize bounds a download of unknown size in bytes. The largest pinned file has
	// 88 MB.
	MaxSize = 512 << 20
	// maxAttempts is how many attempts in a row may bring no data.
	maxAttempts = 5
	// firstPause is the pause before the second attempt. It doubles each time.
	firstPause = time.Second
	// idle is how long a server may send nothing.
	idle = 30 * time.Second
)

// File is what to download.
type File struct {
	URL    string
	Size   int64 // zero if unknown
	SHA256 pack.Digest
	// Hosts are the other hosts that the server may redirect to.
	Hosts []string
}

// name returns the last part of the URL's path.
func (f File) name() (string, error) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", fault.Newf(fault.InvalidArgs, "download", f.URL, "the URL must be https")
	}
	name := path.Base(u.Path)
	if !fs.ValidPath(name) || name == "." {
		return "", fault.Newf(fault.InvalidArgs, "download", f.URL, "the URL has no file name")
	}
	return name, nil
}

// limit returns the maximum size.
func (f File) limit() int64 {
	if f.Size > 0 {
		return f.Size
	}
	return MaxSize
}

// Client downloads to the folder Dir. The other fields are optional.
type Client struct {
	Dir string
	// Transport defaults to one that uses the proxy environment variables.
	Transport http.RoundTripper
	// Pause and Idle override firstPause and idle in tests.
	Pause, Idle time.Duration
}

// Get returns the path of the file and downloads it if needed. It checks the digest, and if
// that is wrong, deletes the file and fails with fault.Rejected. Unreachable tells if the
// error means that the server cannot be reached. Only one program downloads a file at a
// time.
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
			d.remove()
		}
		return "", err
	}
	if err := os.Rename(d.part, file); err != nil {
		return "", fault.New(fault.Execution, "download", f.URL, err)
	}
	d.remove()
	return file, nil
}

// Forget deletes a downloaded file.
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
		Advise("The file was deleted. Someone may be tampering with the download: try another network, and report it if it happens again.")
}
