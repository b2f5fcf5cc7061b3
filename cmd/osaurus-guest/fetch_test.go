//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFetch(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			_, _ = w.Write([]byte("hello"))
		case "/endless":
			for block := make([]byte, 1<<16); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		case "/elsewhere":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/here": "200 OK, 5 bytes\n", "/endless": "200 OK, 65536 bytes\n", "/elsewhere": "302 Found, "} {
		var said strings.Builder
		if err := fetch(t.Context(), &said, server.URL+path); err != nil || !strings.HasPrefix(said.String(), want) {
			t.Errorf("%s: %q, %v", path, said.String(), err)
		}
	}
	for _, url := range []string{server.URL + "/gone", "http://127.0.0.1:1/", "nonsense:"} {
		if err := fetch(t.Context(), &strings.Builder{}, url); err == nil {
			t.Errorf("%s was fetched", url)
		}
	}
}
