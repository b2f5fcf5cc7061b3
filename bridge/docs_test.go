package bridge_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/config"
)

// TestDocs runs the examples of docs/bridge.md in one shell.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/bridge.md")
	if err != nil {
		t.Fatal(err)
	}
	b := bridgetest.New(t, func(o *bridge.Options) { o.Limits = nil })
	b.SetSecret(alice.Name, "rss", "API_KEY", "sk-12345678")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(b.Tokens.Mint(alice)), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	blocks := strings.Split(string(text), "\n```sh\n")[1:]
	for _, part := range blocks {
		block, _, _ := strings.Cut(part, "\n```\n")
		script += block + "\n"
	}
	if len(blocks) < 7 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Env = append(os.Environ(), "OSAURUS_BRIDGE_SOCKET="+b.Listen(t, alice.UID), "OSAURUS_TOKEN_FILE="+token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"sk-12345678\n", "{}2026-01-02\n", "Say hello.\n", `data: {"content":`, "data: [DONE]\n", "tea without milk.\n", "not_found: get secret NOT_THERE", "\nrejected\n", "\nnot_found\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q", want)
		}
	}
	told := strings.Join(b.Told(), "\n")
	for _, want := range []string{"alice dispatch Read the new items rss-42", `alice emit rss.new_item {"title": "Hello"}`, "alice log info 42 items read", "alice create hello"} {
		if !strings.Contains(told, want) {
			t.Errorf("no service got %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", out, told)
	}
}

// TestDocsLimits checks the limits in docs/bridge.md against the defaults.
func TestDocsLimits(t *testing.T) {
	text, err := os.ReadFile("../docs/bridge.md")
	if err != nil {
		t.Fatal(err)
	}
	l := config.Defaults().Bridge
	for what, limit := range map[string]int{
		"secrets": l[config.SecretCalls], "config": l[config.ConfigCalls], "inference": l[config.InferenceCalls], "events, plugins": l[config.HTTPCalls],
		"dispatch": l[config.DispatchCalls], "memory": l[config.MemoryCalls], "log": l[config.LogCalls],
	} {
		row := regexp.MustCompile(`(?m)^\| ` + what + ` \| (\d+)( together)? \| .bridge\.[a-z]+PerMinute. \|$`).FindSubmatch(text)
		if row == nil || string(row[1]) != strconv.Itoa(limit) {
			t.Errorf("%s: the page has %q, and the limit is %d", what, row, limit)
		}
	}
}
