package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/internal/freeport"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/timetest"
)

// TestMCPConformance runs MCP's own conformance tests against the server over HTTP. A list names
// the expected failures, with reasons; the suite also fails on those that pass.
func TestMCPConformance(t *testing.T) {
	suite := lab.Conformance(t)
	if suite == "" {
		t.SkipNow()
	}
	home := newHome(t, "home")
	at := freeport.Address(t)

	// The suite cannot send a token.
	door := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		token, err := os.ReadFile(home.MCPToken())
		if err != nil {
			t.Error(err)
		}
		r.SetURL(&url.URL{Scheme: "http", Host: at})
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}})
	defer door.Close()
	ok(t, "config", "set", "mcp.listen="+at, "mcp.origins="+door.URL)
	ok(t, "agent", "list") // starts the daemon
	timetest.Eventually(t, "the server answers", func() bool {
		r, err := http.Get("http://" + at + mcp.Path)
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil
	})

	ctx, cancel := context.WithTimeout(t.Context(), appLimit)
	defer cancel()
	run := exec.CommandContext(ctx, "node", suite, "server", "--url", door.URL+mcp.Path, "--suite", "all", "--expected-failures", "testdata/conformance.yml")
	out, err := run.CombinedOutput()
	_, summary, whole := strings.Cut(string(out), "=== SUMMARY ===")
	if err != nil || !whole || !strings.Contains(summary, "✓ tools-list: 1 passed") {
		t.Errorf("%v: %s", err, out)
	}
	t.Log(summary)
}
