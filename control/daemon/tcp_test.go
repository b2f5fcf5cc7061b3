package daemon_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/freeport"
)

// TestTCP calls a daemon over TCP as an app, a web page and an attacker would.
func TestTCP(t *testing.T) {
	address := freeport.Address(t)
	home := newHome(t, "home")
	_, end := serve(t, daemon.Options{Home: home, TCP: &control.TCP{Address: address}})
	info, err := os.Stat(control.TokenFile(home))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token's file: %v, %v", info, err)
	}
	text, err := os.ReadFile(control.TokenFile(home))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	call := func(method, body string, change func(*http.Request)) (int, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/osaurus.control.v1.Sandbox/"+method, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(said), err
	}
	for _, tc := range []struct {
		name   string
		code   int
		change func(*http.Request)
	}{
		{"an app", http.StatusOK, func(*http.Request) {}},
		{"no token", http.StatusUnauthorized, func(r *http.Request) { r.Header.Del("Authorization") }},
	} {
		for method, body := range map[string]string{"Status": "{}", "Exec": `{"start": {"args": ["echo", "ran"]}}`} {
			code, said, err := call(method, body, tc.change)
			passed := strings.Contains(said, `"state"`) || strings.Contains(said, `"exit"`)
			if err != nil || code != tc.code || passed != (tc.code == http.StatusOK) {
				t.Errorf("%s, %s: %d, %s, %v", tc.name, method, code, said, err)
			}
		}
	}
	log, err := os.ReadFile(control.DaemonLog(home))
	if err != nil || bytes.Contains(log, []byte(token)) {
		t.Errorf("the log tells the token, %v", err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := call("Status", "{}", func(*http.Request) {}); err == nil {
		t.Error("it listens after its end")
	}
}
