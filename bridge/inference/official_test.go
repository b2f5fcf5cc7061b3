package inference_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/internal/timetest"
)

const (
	// officialClient is the package that the format is whose own.
	officialClient = "openai@7.57.0"
	// fetchLimit is how long fetching it may take: it is a few megabytes.
	fetchLimit = 25 * time.Second
)

// The endpoint that these tests ask is true to the format: OpenAI's own client
// can talk to it.
func TestOfficialClient(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("*** NOT TRIED: there is no npm to fetch the official client with; apt-get install npm")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	fetch := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline", officialClient)
	fetch.Dir, fetch.WaitDelay = dir, time.Second
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("*** NOT TRIED: npm cannot be reached (%v):\n%s", err, out)
	}
	program, err := os.ReadFile("testdata/official.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "official.mjs"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := new(inferencetest.Endpoint)
	server := httptest.NewServer(endpoint)
	defer server.Close()

	node := exec.CommandContext(t.Context(), "node", "official.mjs")
	node.Dir, node.Stderr = dir, os.Stderr
	node.Env = append(os.Environ(), "ENDPOINT="+server.URL+"/v1", "KEY="+inferencetest.Key)
	out, err := node.Output()
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		Whole                   string
		Cost, Usage             int
		Parts, Models           []string
		Reason                  string
		Unknown, Busy, Stranger string
	}
	want := result{
		Whole: "one two three", Cost: 6, Usage: 6, Parts: []string{"one ", "two ", "three"}, Models: []string{"echo"}, Reason: "stop",
		Unknown: "NotFoundError 404", Busy: "RateLimitError 429", Stranger: "AuthenticationError 401",
	}
	var got result
	if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the official client says %s (%v), want %+v", out, err, want)
	}
	timetest.Eventually(t, "the chat that it left ends", func() bool { return endpoint.Left.Load() > 0 })
}
