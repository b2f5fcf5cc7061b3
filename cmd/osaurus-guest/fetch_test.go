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
		if r.URL.Path != "/here" {
			http.NotFound(w, r)
			return
		}
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	var said strings.Builder
	if err := fetch(t.Context(), &said, server.URL+"/here"); err != nil || said.String() != "200 OK, 65536 bytes\n" {
		t.Errorf("an endless answer: %q, %v", said.String(), err)
	}
	for _, url := range []string{server.URL + "/gone", "http://127.0.0.1:1/", "nonsense:"} {
		if err := fetch(t.Context(), &strings.Builder{}, url); err == nil {
			t.Errorf("%s was fetched", url)
		}
	}
}
