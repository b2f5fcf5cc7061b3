package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

const (
	// maxAttempts is how many attempts in a row may bring no data.
	maxAttempts = 5
	// firstPause is the pause before the second attempt. It doubles each time.
	firstPause = time.Second
	// idle is how long a server may send nothing.
	idle = 30 * time.Second
	// maxRedirects is how many redirects are followed.
	maxRedirects = 5

	resumeAdvice  = "Run the command again to resume the download."
	networkAdvice = "Check the network and the proxy settings (HTTPS_PROXY), or import a pack with `osaurus-sandbox pack import`."
)

// download downloads one file. It keeps what it has received, so that a later run resumes.
type download struct {
	client   *Client
	file     File
	report   progress.Func
	out      *os.File
	have     int64     // bytes in the file
	hash     hash.Hash // of them
	answered bool      // the server has answered
}

func (d *download) digest() pack.Digest { return pack.Digest(d.hash.Sum(nil)) }

// run tries until the file is complete. It gives up after maxAttempts without progress, or
// at an error with a kind.
func (d *download) run(ctx context.Context) (err error) {
	d.hash = sha256.New()
	if d.have, err = io.Copy(d.hash, d.out); err != nil {
		return fault.New(fault.Execution, "download", d.file.URL, err)
	}
	if d.digest() == d.file.SHA256 {
		return nil
	}
	if d.have >= d.file.Size { // another file, or a damaged one
		if err := d.restart(); err != nil {
			return fault.New(fault.Execution, "download", d.file.URL, err)
		}
	}
	pause := cmp.Or(d.client.Pause, firstPause)
	for failed := 0; ; {
		before := d.have
		err := d.attempt(ctx)
		if err == nil {
			return d.check()
		}
		if final, ok := errors.AsType[*fault.Error](err); ok {
			return final
		}
		if failed++; d.have > before {
			failed = 1
		}
		if failed == maxAttempts {
			return d.giveUp(err)
		}
		select {
		case <-ctx.Done():
			return fault.Wrap("download", d.file.URL, ctx.Err()).Advise(resumeAdvice)
		case <-time.After(pause << (failed - 1)):
		}
	}
}

func (d *download) check() error {
	if d.have != d.file.Size {
		return d.rejectSize(d.have)
	}
	if got := d.digest(); got != d.file.SHA256 {
		return pack.Mismatch("download", d.file.URL, d.file.SHA256, got).
			Advise("The file was deleted. Someone may be tampering with the download: try another network, and report it if it happens again.")
	}
	return nil
}

// giveUp returns the error after the last attempt.
func (d *download) giveUp(err error) error {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !d.answered && !untrusted {
		return fault.Newf(fault.Unavailable, "download", d.file.URL, "%w: %w", errUnreachable, err).Advise(networkAdvice)
	}
	return fault.New(fault.Unavailable, "download", d.file.URL, err).Advise(resumeAdvice)
}

// attempt requests and receives the missing part. Errors without a kind are worth another
// attempt.
func (d *download) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := cmp.Or(d.client.Idle, idle)
	silent := time.AfterFunc(patience, func() { cancel(fmt.Errorf("the server sent nothing for %s", patience)) })
	defer silent.Stop()
	response, err := d.request(ctx)
	if err == nil {
		defer response.Body.Close()
		d.answered = true
		if err = d.accept(response); err == nil {
			err = d.receive(response, heard(func() { silent.Reset(patience) }))
		}
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

// heard is a writer that is called when something is written.
type heard func()

func (h heard) Write(p []byte) (int, error) {
	h()
	return len(p), nil
}

func (d *download) request(ctx context.Context) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.file.URL, nil)
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, "download", d.file.URL, err)
	}
	request.Header.Set("Accept-Encoding", "identity") // the digest is of the uncompressed file
	request.Header.Set("User-Agent", "osaurus-sandbox")
	if d.have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
	}
	request.Close = true // nothing else uses the connection
	client := &http.Client{Transport: d.client.Transport, CheckRedirect: d.checkRedirect}
	response, err := client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the caller adds the URL
	}
	return response, err
}

// checkRedirect allows redirects on the file's host only.
func (d *download) checkRedirect(next *http.Request, via []*http.Request) error {
	switch {
	case next.URL.Scheme != "https":
		return d.reject(fmt.Errorf("its server redirects to %s, which is not https", next.URL.Redacted()))
	case next.URL.Host != via[0].URL.Host:
		return d.reject(fmt.Errorf("its server redirects to the other host %s", next.URL.Host))
	case len(via) > maxRedirects:
		return d.reject(fmt.Errorf("its server redirects more than %d times", maxRedirects))
	}
	return nil
}

// accept checks the status of a response. It discards what was downloaded unless the
// response continues it.
func (d *download) accept(response *http.Response) error {
	ranged := response.Header.Get("Content-Range")
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return d.restart()
	case code == http.StatusPartialContent && strings.HasPrefix(ranged, fmt.Sprintf("bytes %d-", d.have)):
		return nil
	case code == http.StatusPartialContent || code == http.StatusRequestedRangeNotSatisfiable:
		return cmp.Or(d.restart(), fmt.Errorf("its server sends the range %q instead of the bytes from %d on", ranged, d.have))
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return fmt.Errorf("its server answers %q", response.Status)
	case code == http.StatusNotFound || code == http.StatusGone:
		return fault.Newf(fault.NotFound, "download", d.file.URL, "its server answers %q", response.Status).
			Advise("The file has moved: update this program, or import a pack with `osaurus-sandbox pack import`.")
	}
	return fault.Newf(fault.Unavailable, "download", d.file.URL, "its server answers %q", response.Status).Advise(networkAdvice)
}

// restart discards what was downloaded.
func (d *download) restart() error {
	d.have = 0
	d.hash.Reset()
	if _, err := d.out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.out.Truncate(0)
}

// receive appends a body to the file. It refuses one of the wrong length before it reads it,
// if the server says how long it is.
func (d *download) receive(response *http.Response, received io.Writer) error {
	if n := response.ContentLength; n >= 0 && d.have+n != d.file.Size {
		return d.rejectSize(d.have + n)
	}
	meter := d.report.Start("download "+filepath.Base(d.out.Name()), d.have, d.file.Size)
	defer meter.Finish()
	n, err := io.Copy(io.MultiWriter(d.out, d.hash, meter, received), io.LimitReader(response.Body, d.file.Size+1-d.have))
	d.have += n
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.New(fault.Execution, "download", d.file.URL, failed).Advise("Free disk space. " + resumeAdvice)
	}
	if d.have > d.file.Size {
		return d.rejectSize(d.have)
	}
	return err
}

func (d *download) rejectSize(size int64) error {
	return d.reject(fmt.Errorf("its server sends %d bytes, but %d are pinned", size, d.file.Size))
}

func (d *download) reject(err error) error {
	return fault.New(fault.Rejected, "download", d.file.URL, err).
		Advise("The server does not send the pinned file. It was deleted. Try another network.")
}
