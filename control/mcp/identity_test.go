package mcp

import (
	"strings"
	"testing"

	"osaurus-sandbox/config"
)

func TestAgentOf(t *testing.T) {
	for client, want := range map[string]config.AgentName{
		"claude-code": "claude-code", "Visual Studio Code": "visual-studio-code", "  Zed ": "zed", "": "mcp-client", "   ": "mcp-client", "7": "7",
	} {
		if got := agentOf(client); got != want {
			t.Errorf("%q: %s, want %s", client, got, want)
		}
	}
	seen := map[config.AgentName]string{}
	for _, client := range []string{
		"acme", "acme!", "acme?", "-acme", "acme-", "ac/me", "ac.me", "acme\x00", "мой", "你好", "你 好", "...", "mcp-client", "",
		strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 66), strings.Repeat("a-", 60),
	} {
		name := agentOf(client)
		if _, err := config.ParseAgentName(string(name)); err != nil {
			t.Errorf("%q: %v", client, err)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both %s", client, other, name)
		}
		seen[name] = client
	}
}

// Every client has a valid agent name, and two clients the same only if their names differ
// in capitals and spaces.
func FuzzAgentOf(f *testing.F) {
	f.Add("claude-code", "Claude Code")
	f.Add("a!", "a?")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := agentOf(a), agentOf(b)
		for _, name := range []config.AgentName{x, y} {
			if _, err := config.ParseAgentName(string(name)); err != nil {
				t.Fatal(err)
			}
		}
		plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), " ", "-")) }
		if (x == y) != (plain(a) == plain(b)) {
			t.Errorf("%q is %s, %q is %s", a, x, b, y)
		}
	})
}
