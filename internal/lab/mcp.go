package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Programs by others that speak MCP, in versions for Node 20, and the folder that keeps
// them.
const (
	inspectorPackage   = "@modelcontextprotocol/inspector-cli@0.17.2"
	conformancePackage = "@modelcontextprotocol/conformance@0.1.13"
	mcpKept            = "mcp-inspector-0.17.2-conformance-0.1.13"
	mcpFolder          = "node_modules/@modelcontextprotocol"
)

// Inspector returns the command line of the MCP Inspector, to be run by Node. If it cannot
// be fetched, it logs why and returns "".
func Inspector(t testing.TB) string {
	t.Helper()
	return mcpProgram(t, "inspector-cli/build/index.js")
}

// Conformance returns the suite of MCP's conformance tests. See Inspector.
func Conformance(t testing.TB) string {
	t.Helper()
	return mcpProgram(t, "conformance/dist/index.js")
}

func mcpProgram(t testing.TB, program string) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("\n*** NO %s on this host: %v\n*** %s runs without the MCP Inspector and the conformance tests.", program, err, t.Name())
			return ""
		}
	}
	dir, err := try(t, "any", mcpKept, fetchMCP)
	if err != nil {
		t.Logf("\n*** NPM'S REGISTRY FAILED: %v\n*** %s runs without the MCP Inspector and the conformance tests.", err, t.Name())
		return ""
	}
	return filepath.Join(dir, mcpFolder, program)
}

func fetchMCP(ctx context.Context, temp string) (string, error) {
	out := filepath.Join(temp, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return "", err
	}
	if err := runNPM(ctx, out, "install", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=2000", "--prefix", out, inspectorPackage, conformancePackage); err != nil {
		return "", err
	}
	// The Inspector looks for its own description one folder too high.
	description := filepath.Join(out, mcpFolder, "package.json")
	return out, os.WriteFile(description, []byte(`{"name":"inspector","version":"0.17.2"}`), 0o644)
}
