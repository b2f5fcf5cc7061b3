package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"osaurus-sandbox/config"
)

const (
	// maxClient bounds a client's name.
	maxClient = 100
	// maxStem leaves room in an agent's name for a dash and a digest.
	maxStem = 48
	// digestSize is as much of a digest as keeps the names of clients apart.
	digestSize = 4
	// nameless is the agent of clients without a name.
	nameless config.AgentName = "mcp-client"
)

var noName = regexp.MustCompile(`[^a-z0-9]+`)

// agentOf returns the agent's name for a client: lower case, with dashes for spaces. If
// that is not a valid name, other characters become dashes too and a digest of the
// client's name follows, so that two clients do not share an agent.
func agentOf(client string) config.AgentName {
	text := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(client), " ", "-"))
	if text == "" {
		return nameless
	}
	if name, err := config.ParseAgentName(text); err == nil && name != nameless {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	stem := strings.Trim(noName.ReplaceAllString(text, "-"), "-")
	stem = strings.Trim(stem[:min(len(stem), maxStem)], "-")
	if stem == "" {
		stem = string(nameless)
	}
	return config.AgentName(stem + "-" + hex.EncodeToString(sum[:digestSize]))
}
