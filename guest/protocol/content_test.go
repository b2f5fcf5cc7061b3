package protocol

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestContent checks that a handler sees only the message, and gets the content with the context.
func TestContent(t *testing.T) {
	server := httptest.NewServer(TakeContent(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(r.Body)
		c := ContentOf(r.Context())
		fmt.Fprintf(w, "%d %s %v %d", r.ContentLength, message, err, c.Size)
		if c.Reader != nil {
			content, err := io.ReadAll(c)
			fmt.Fprintf(w, " %s %v", content, err)
		}
	})))
	defer server.Close()
	answer := func(r *http.Request) string {
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		return fmt.Sprint(a.StatusCode, " ", string(text), " ", err)
	}
	request := func(content *Content) *http.Request {
		ctx := t.Context()
		if content != nil {
			ctx = WithContent(ctx, *content)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("message"))
		if err != nil {
			t.Fatal(err)
		}
		return SendContent(r)
	}
	for _, tc := range []struct {
		content *Content
		want    string
	}{
		{nil, "200 7 message <nil> 0 <nil>"},
		{&Content{strings.NewReader("content"), 7}, "200 7 message <nil> 7 content <nil> <nil>"},
		{&Content{strings.NewReader(""), 0}, "200 7 message <nil> 0  <nil> <nil>"},
	} {
		if got := answer(request(tc.content)); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.content, got, tc.want)
		}
	}
	for _, bad := range []string{"8", "-1", "x", "18446744073709551615"} {
		r := request(nil)
		r.Header.Set(ContentHeader, bad)
		if got := answer(r); !strings.HasPrefix(got, "400 ") {
			t.Errorf("%s: %s", bad, got)
		}
	}
}
