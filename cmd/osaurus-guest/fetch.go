//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	fetchTimeout = 15 * time.Second
	// maxBody bounds how much of a response is read.
	maxBody = 64 << 10
)

// fetch requests a URL and writes the status and size of the response, to check that a guest has a
// network without needing curl. It uses no proxy and follows no redirects, since any response is
// enough.
func fetch(ctx context.Context, w io.Writer, url string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	_, err = fmt.Fprintf(w, "%s, %d bytes\n", answer.Status, n)
	return err
}
