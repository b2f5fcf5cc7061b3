// Package fetch downloads files pinned by size and digest, over HTTPS only. Interrupted downloads resume.
package fetch

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

// File is what to download.
type File struct {
	URL    string
	Size   int64
	SHA256 pack.Digest
}

// Name returns the last part of the URL's path.
func (f File) Name() (string, error) {
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

// Client downloads to the folder Dir. The other fields are optional.
type Client struct {
	Dir string
	// Transport defaults to one that uses the proxy environment variables.
	Transport http.RoundTripper
	// Pause and Idle override firstPause and idle in tests.
	Pause, Idle time.Duration
}

// Get returns the path of the file and downloads what is missing of it. If its size or
// digest is wrong, it deletes the file and fails with fault.Rejected. Only one program downloads a
// file at a time.
func (c *Client) Get(ctx context.Context, f File, report progress.Func) (string, error) {
	name, err := f.Name()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", fault.New(fault.Execution, "download", f.URL, err)
	}
	file := filepath.Join(c.Dir, name)
	unlock, err := config.Lock(ctx, file+".lock", func() { report.Note("waiting for another program to download " + name) })
	if err != nil {
		return "", err
	}
	defer unlock()
	out, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fault.New(fault.Execution, "download", f.URL, err)
	}
	defer out.Close()
	d := &download{client: c, file: f, report: report, out: out}
	if err := d.run(ctx); err != nil {
		if fault.KindOf(err) == fault.Rejected || d.have == 0 {
			os.Remove(file)
		}
		return "", err
	}
	return file, nil
}

// Forget deletes a downloaded file.
func (c *Client) Forget(f File) {
	if name, err := f.Name(); err == nil {
		os.Remove(filepath.Join(c.Dir, name))
	}
}

var errUnreachable = errors.New("its host cannot be reached")

// Unreachable reports whether an error of Get means that the file's host never answered: it has no address,
// refuses connections or is silent, or a proxy blocks it. A wrong certificate is another error.
func Unreachable(err error) bool { return errors.Is(err, errUnreachable) }
