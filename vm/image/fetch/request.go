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
	// maxRedirects is how often a server may send us on.
	maxRedirects = 5
	// dialTimeout bounds reaching a host. A second one is tried at once, so
	// this is how long a network that swallows packets costs.
	dialTimeout = 10 * time.Second
)

var (
	errUnreachable = errors.New("its host cannot be reached")
	errProxy       = errors.New("the proxy does not connect to it")
)

// Unreachable reports whether an error of Get means that no byte ever came
// from the file's host: no name, no route, nobody there, or a proxy that does
// not let it through.
func Unreachable(err error) bool { return errors.Is(err, errUnreachable) }

func isUnreachable(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok || errors.Is(err, errProxy) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// attempt asks for what is missing and receives it. An error that has no kind
// is worth another attempt.
func (d *download) attempt(ctx context.Context) error {
	if d.file.Size > 0 && d.have == d.file.Size {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := orDefault(d.client.Idle, idle)
	silent := time.AfterFunc(patience, func() { cancel(fmt.Errorf("nothing came for %s", patience)) })
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

// busyReader puts a timer off whenever something comes.
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
	request.Header.Set("Accept-Encoding", "identity") // the digest is of the file as it is
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
			err = asked.Err // it is said already whose error this is
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

// checkRedirect follows only to where the file is pinned to come from.
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

// accept judges the head of an answer and receives its body.
func (d *download) accept(response *http.Response, body io.Reader) error {
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return d.reject(fmt.Errorf("its server packs it as %q unasked", encoding))
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
			return errors.Join(errors.New("its server sends another part than was asked for"), d.restart())
		}
		if err := d.checkLength(total); err != nil {
			return err
		}
	case http.StatusRequestedRangeNotSatisfiable:
		var total int64
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes */%d", &total); err == nil && total == d.have {
			return nil // all was there already
		}
		return errors.Join(errors.New("its server has no such part"), d.restart())
	default:
		return d.refused(response)
	}
	tag := response.Header.Get("ETag")
	if strings.HasPrefix(tag, "W/") {
		tag = "" // a weak tag says nothing about bytes
	}
	if err := d.keepTag(tag); err != nil {
		return fault.New(fault.Execution, "download", d.file.URL, err)
	}
	return d.receive(body)
}

// checkLength judges how long a server says that the whole file is; it may
// not say.
func (d *download) checkLength(total int64) error {
	switch {
	case total < 0:
		return nil
	case d.file.Size > 0 && total != d.file.Size:
		return d.reject(fmt.Errorf("its server has %d bytes, but %d are pinned", total, d.file.Size))
	case total > MaxSize:
		return d.reject(fmt.Errorf("it has %d bytes, more than the %d that any download may have", total, int64(MaxSize)))
	}
	d.meter.SetTotal(total)
	return nil
}

// refused is the error for a status that is none of success.
func (d *download) refused(response *http.Response) error {
	err := fmt.Errorf("its server answers %q", response.Status)
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return err
	case code == http.StatusNotFound || code == http.StatusGone:
		return fault.New(fault.NotFound, "download", d.file.URL, err).
			Advise("The file is no longer where it was pinned: update this program, or import a pack with `osaurus-sandbox pack import`.")
	}
	return fault.New(fault.Unavailable, "download", d.file.URL, err).
		Advise("Check the network and the proxy settings (HTTPS_PROXY), or import a pack with `osaurus-sandbox pack import`.")
}
