package mcp_test

import (
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/internal/freeport"
)

// Whatever address of this computer's own it listens on, by that it can be called: all of
// 127.0.0.0/8 are such on Linux.
func TestOtherLoopback(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	_, port, _ := net.SplitHostPort(freeport.Address(t))
	at := net.JoinHostPort("127.9.9.9", port)
	l, err := mcp.Listen(home, config.MCP{Listen: config.LoopbackAddress(at)}, mcp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answer, err := http.Get("http://" + at + mcp.Path)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized { // it is not refused for the name
		t.Error(answer.Status)
	}
}
