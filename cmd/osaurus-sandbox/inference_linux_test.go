package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/internal/fault"
)

// agentsAsk has programs of agents ask a model, all the way: from the room to the
// endpoint and back. Bob has no network, and asks all the same.
func agentsAsk(t *testing.T) {
	endpoint := new(inferencetest.Endpoint)
	server := httptest.NewServer(endpoint)
	defer server.Close()
	if code, out := as(t, "alice", "osaurus-host inference chat -m hello"); code != fault.ExitUnavailable || !strings.Contains(out, "config set inference.baseURL") {
		t.Errorf("without an endpoint: %d, %q", code, out)
	}
	ok(t, "config", "set", "secrets=file", "inference.baseURL="+server.URL+"/v1", "inference.model="+inferencetest.Echo)
	if code, _, stderr := fed(t, inferencetest.Key, "secret", "set", "@host", "INFERENCE_API_KEY"); code != 0 {
		t.Fatal(stderr)
	}
	const text = `one "two" three`
	for _, agent := range []string{"alice", "bob"} {
		if code, out := as(t, agent, "echo '"+text+"' | osaurus-host inference chat --stream"); code != 0 || out != text {
			t.Errorf("%s asks: %d, %q", agent, code, out)
		}
	}
	// No agent's program finds the key by its name.
	if code, out := as(t, "alice", "osaurus-host secrets get INFERENCE_API_KEY"); code != fault.ExitNotFound || strings.Contains(out, inferencetest.Key) {
		t.Errorf("the key: %d, %q", code, out)
	}
	if asked := endpoint.Asked(); len(asked) != 2 || !asked[1].Stream {
		t.Errorf("the endpoint was asked %+v", asked)
	}
	ok(t, "config", "set", "inference.baseURL=")
}
