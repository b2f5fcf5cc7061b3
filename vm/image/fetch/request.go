package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// maxRedirects is how many redirects are followed.
	maxRedirects = 5
	// dialTimeout bounds connecting to a host, for networks that drop packets.
	dialTimeout = 10 * time.Second
)

var (
	errUnreachable = errors.New("its host cannot be reached")
	errProxy       = errors.New("the proxy refuses the connection")
)

// Unreachable reports whether an error of Get means that the file's host never answered:
// it has no address, refuses connections, or a proxy blocks it.
func Unreachable(err error) bool { return errors.Is(err, errUnreachable) }

func isUnreachable(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok || errors.Is(err, errProxy) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// attempt requests and receives the missing part. Errors without a kind are worth another
// attempt.
func (d *download) attempt(ctx context.Context) error {
	if d.file.Size > 0 && d.have == d.file.Size {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := orDefault(d.client.Idle, idle)
	silent := time.AfterFunc(patience, func() { cancel(fmt.Errorf("the server sent nothing for %s", patience)) })
	defer silent.Stop()

	response, release, err := d.request(ctx)
	if err == nil {
		defer release()
		d.answered = true
		err = d.accept(response, &busyReader{response.Body, silent, patience})
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

// busyReader resets a timer whenever it reads data.
type busyReader struct {
	r        io.Reader
	timer    *time.Timer
	patience time.Duration
}

func (b *busyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.timer.Reset(b.patience)
	}
	return n, err
}

func (d *download) request(ctx context.Context) (response *http.Response, release func(), err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.file.URL, nil)
	if err != nil {
		return nil, nil, fault.New(fault.InvalidArgs, "download", d.file.URL, err)
	}
	request.Header.Set("Accept-Encoding", "identity") // the digest is of the uncompressed file
	request.Header.Set("User-Agent", "osaurus-sandbox")
	if d.have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		if d.tag != "" {
			request.Header.Set("If-Range", d.tag)
		}
	}
	transport := d.client.Transport
	done := func() {}
	if transport == nil {
		own := newTransport()
		transport, done = own, own.CloseIdleConnections
	}
	client := &http.Client{Transport: transport, CheckRedirect: d.checkRedirect}
	response, err = client.Do(request)
	if err != nil {
		done()
		if asked, ok := errors.AsType[*url.Error](err); ok && asked.URL == d.file.URL {
			err = asked.Err // the caller adds the URL
		}
		return nil, nil, err
	}
	return response, func() { response.Body.Close(); done() }, nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("%w: it answers %q", errProxy, response.Status)
			}
			return nil
		},
	}
}

// checkRedirect allows redirects only to the hosts of the file.
func (d *download) checkRedirect(next *http.Request, via []*http.Request) error {
	host := next.URL.Host
	switch {
	case next.URL.Scheme != "https":
		return d.reject(fmt.Errorf("its server redirects to %s, which is not https", next.URL.Redacted()))
	case host != via[0].URL.Host && !slices.Contains(d.file.Hosts, host):
		return d.reject(fmt.Errorf("its server redirects to the other host %s", host))
	case len(via) > maxRedirects:
		return d.reject(fmt.Errorf("its server redirects more than %d times", maxRedirects))
	}
	return nil
}

// accept checks a response and receives its body.
func (d *download) accept(response *http.Response, body io.Reader) error {
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return d.reject(fmt.Errorf("its server compresses it with %q", encoding))
	}
	switch response.StatusCode {
	case http.StatusOK:
		if err := d.restart(); err != nil {
			return fault.New(fault.Execution, "download", d.file.URL, err)
		}
		if err := d.checkLength(response.ContentLength); err != nil {
			return err
		}
	case http.StatusPartialContent:
		var first, last, total int64
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total); err != nil || first != d.have {
			return errors.Join(errors.New("its server sends another part than requested"), d.restart())
		}
		if err := d.checkLength(total); err != nil {
			return err
		}
	case http.StatusRequestedRangeNotSatisfiable:
		var total int64
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes */%d", &total); err == nil && total == d.have {
			return nil // the part file is complete
		}
		return errors.Join(errors.New("its server has no such part"), d.restart())
	default:
		return d.refused(response)
	}
	tag := response.Header.Get("ETag")
	if strings.HasPrefix(tag, "W/") {
		tag = "" // weak tags do not identify content
	}
	if err := d.keepTag(tag); err != nil {
		return fault.New(fault.Execution, "download", d.file.URL, err)
	}
	return d.receive(body)
}

// checkLength checks the server's length of the whole file, negative if unknown.
func (d *download) checkLength(total int64) error {
	switch {
	case total < 0:
		return nil
	case d.file.Size > 0 && total != d.file.Size:
		return d.reject(fmt.Errorf("its server has %d bytes, but %d are pinned", total, d.file.Size))
	case total > MaxSize:
		return d.reject(fmt.Errorf("it has %d bytes, more than the limit of %d", total, int64(MaxSize)))
	}
	d.meter.SetTotal(total)
	return nil
}

// refused returns the error for an unsuccessful status.
func (d *download) refused(response *http.Response) error {
	err := fmt.Errorf("its server answers %q", response.Status)
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return err
	case code == http.StatusNotFound || code == http.StatusGone:
		return fault.New(fault.NotFound, "download", d.file.URL, err).
			Advise("The file has moved: update this program, or import a pack with `osaurus-sandbox pack import`.")
	}
	return fault.New(fault.Unavailable, "download", d.file.URL, err).
		Advise("Check the network and the proxy settings (HTTPS_PROXY), or import a pack with `osaurus-sandbox pack import`.")
}
