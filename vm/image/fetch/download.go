package fetch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

const resumeAdvice = "Run the command again to resume the download."

// download downloads one file to a part file. Another file beside it stores the server's
// ETag, so that a later run can resume.
type download struct {
	client *Client
	file   File
	name   string
	part   string
	report progress.Func

	out      *os.File
	have     int64     // bytes in the part file
	hash     hash.Hash // of them
	tag      string
	meter    *progress.Meter
	answered bool // the server has answered
}

func (d *download) tagPath() string { return d.part + ".etag" }

func (d *download) remove() {
	os.Remove(d.part)
	os.Remove(d.tagPath())
}

func (d *download) run(ctx context.Context) error {
	var err error
	if d.out, err = os.OpenFile(d.part, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fault.New(fault.Execution, "download", d.file.URL, err)
	}
	defer d.out.Close()
	if err := d.resume(); err != nil {
		return fault.New(fault.Execution, "download", d.file.URL, err)
	}
	if err := d.attempts(ctx); err != nil {
		return err
	}
	if err := d.out.Sync(); err != nil {
		return fault.New(fault.Execution, "download", d.file.URL, err)
	}
	if got := pack.Digest(d.hash.Sum(nil)); got != d.file.SHA256 {
		return mismatch(d.file, got)
	}
	return nil
}

// resume hashes what an earlier run downloaded.
func (d *download) resume() error {
	tag, err := os.ReadFile(d.tagPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	d.tag, d.hash = string(tag), sha256.New()
	if d.have, err = io.Copy(d.hash, io.LimitReader(d.out, d.file.limit())); err != nil {
		return err
	}
	return d.out.Truncate(d.have)
}

// restart discards the downloaded part, because the server sends the whole file.
func (d *download) restart() error {
	if d.have == 0 {
		return nil
	}
	d.have, d.hash, d.tag = 0, sha256.New(), ""
	os.Remove(d.tagPath())
	d.meter.Finish()
	d.meter = d.report.Start("download "+d.name, 0, d.file.Size)
	if err := d.out.Truncate(0); err != nil {
		return err
	}
	_, err := d.out.Seek(0, io.SeekStart)
	return err
}

// attempts tries until the file is complete. It gives up after maxAttempts without progress,
// or at an error with a kind.
func (d *download) attempts(ctx context.Context) error {
	d.meter = d.report.Start("download "+d.name, d.have, d.file.Size)
	defer func() { d.meter.Finish() }()
	pause := orDefault(d.client.Pause, firstPause)
	failed := 0
	for {
		before := d.have
		err := d.attempt(ctx)
		if err == nil {
			return nil
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

// giveUp returns the error after the last attempt.
func (d *download) giveUp(err error) error {
	if !d.answered && isUnreachable(err) {
		return fault.Newf(fault.Unavailable, "download", d.file.URL, "%w: %w", errUnreachable, err).
			Advise("Check the network and the proxy settings (HTTPS_PROXY), or import a pack with `osaurus-sandbox pack import`.")
	}
	return fault.New(fault.Unavailable, "download", d.file.URL, err).Advise(resumeAdvice)
}

// keepTag stores the server's ETag.
func (d *download) keepTag(tag string) error {
	if tag == d.tag {
		return nil
	}
	d.tag = tag
	return os.WriteFile(d.tagPath(), []byte(tag), 0o600)
}

// receive appends a body to the part file and the hash, up to the file's limit.
func (d *download) receive(body io.Reader) error {
	limit := d.file.limit()
	n, err := io.Copy(io.MultiWriter(d.out, d.hash, d.meter), io.LimitReader(body, limit-d.have))
	d.have += n
	if write, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.New(fault.Execution, "download", d.file.URL, write).Advise("Free disk space. " + resumeAdvice)
	}
	if err != nil {
		return err
	}
	if d.have < limit {
		if d.file.Size > 0 {
			return fmt.Errorf("got %d of %d bytes", d.have, limit)
		}
		return nil
	}
	if d.file.Size > 0 {
		return nil
	}
	if extra, _ := io.CopyN(io.Discard, body, 1); extra > 0 {
		return d.reject(fmt.Errorf("its server sends more than %d bytes", limit))
	}
	return nil
}

func (d *download) reject(err error) error {
	return fault.New(fault.Rejected, "download", d.file.URL, err).
		Advise("The server does not send the pinned file. It was deleted. Try another network.")
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
