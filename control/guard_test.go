package control

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

func TestToken(t *testing.T) {
	home := config.Home(t.TempDir() + "/home")
	path := filepath.Join(string(home), "config", "a-token")
	first, err := ReadToken(home, path)
	if err != nil || len(first) < minToken {
		t.Fatalf("%q %v", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if again, err := ReadToken(home, path); err != nil || again != first {
		t.Errorf("%q %v", again, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(home, path); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("a token that others can read: %v", err)
	}
}

// Who may not come in keeps no connection.
func TestRefusedAreDisconnected(t *testing.T) {
	l, err := ListenLimited("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := Guard{Token: "secret", Hosts: LocalHosts("127.0.0.1:80"), Refuse: refuse}
	server := httptest.NewUnstartedServer(g.Server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), slog.New(slog.DiscardHandler)).Handler)
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	for authorization, stays := range map[string]bool{"": false, "Bearer other": false, "Bearer secret": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", authorization)
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); err != nil || answer.Close == stays || answer.Body.Close() != nil {
			t.Errorf("with %q: status %d, and the connection is closed: %v (%v)", authorization, answer.StatusCode, answer.Close, err)
		}
	}
}
