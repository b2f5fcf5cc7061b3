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

// Over TCP, calls with the token are answered and others are not. The log does not have
// the token.
func TestTCP(t *testing.T) {
	address, home := freeport.Address(t), newHome(t, "home")
	serve(t, daemon.Options{Home: home, TCP: &control.TCP{Address: address}})
	token, err := os.ReadFile(home.APIToken())
	if err != nil {
		t.Fatal(err)
	}
	for authorization, want := range map[string]int{"Bearer " + string(bytes.TrimSpace(token)): http.StatusOK, "": http.StatusUnauthorized} {
		for method, body := range map[string]string{"Status": "{}", "Exec": `{"start": {"args": ["echo", "ran"]}}`} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/osaurus.control.v1.Sandbox/"+method, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {authorization}}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			passed := bytes.Contains(text, []byte(`"state"`)) || bytes.Contains(text, []byte(`"exit"`))
			if answer.StatusCode != want || passed != (want == http.StatusOK) {
				t.Errorf("%s with %q: %d %s", method, authorization, answer.StatusCode, text)
			}
		}
	}
	if log, err := os.ReadFile(control.DaemonLog(home)); err != nil || bytes.Contains(log, bytes.TrimSpace(token)) {
		t.Errorf("the log has the token, %v", err)
	}
}
