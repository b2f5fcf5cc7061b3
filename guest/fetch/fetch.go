// Package fetch gets something over HTTP in a guest, to prove its network whatever programs the guest has.
package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// limit is what an answer may take: one that takes longer is of no use to an agent.
	limit = 15 * time.Second
	// maxBody is how much of an answer is read: it proves as much as all of it.
	maxBody = 64 << 10
)

// Get gets a URL and writes in a few words what came. It takes no proxy's answer
// for a network, and follows no redirection: that there is an answer is enough.
func Get(ctx context.Context, w io.Writer, url string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
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
