package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What others wrote to speak MCP, in versions that Node 20 runs; and where it is kept
// once it is fetched.
const (
	inspectorPackage   = "@modelcontextprotocol/inspector-cli@0.17.2"
	conformancePackage = "@modelcontextprotocol/conformance@0.1.13"
	mcpKept            = "mcp-inspector-0.17.2-conformance-0.1.13"
	mcpFolder          = "node_modules/@modelcontextprotocol"
	// registryLimit is how long fetching anything may take of npm's registry, of which the
	// largest is 50 MB in a hundred packages: no test waits longer for one that is slow today.
	registryLimit = time.Minute
)

// Inspector returns the command line of the MCP Inspector, for Node to run: a client of
// MCP that others wrote. Where it cannot be had it is "", and a loud log line.
func Inspector(t testing.TB) string {
	t.Helper()
	return mcpProgram(t, "inspector-cli/build/index.js")
}

// Conformance returns the suite of MCP's own conformance tests, as Inspector does.
func Conformance(t testing.TB) string {
	t.Helper()
	return mcpProgram(t, "conformance/dist/index.js")
}

func mcpProgram(t testing.TB, program string) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("\n*** NO %s on this host: %v\n*** %s does without the MCP Inspector and the conformance tests.", program, err, t.Name())
			return ""
		}
	}
	dir, err := try(t, "any", mcpKept, fetchMCP)
	if err != nil {
		t.Logf("\n*** NOT TO BE HAD from npm's registry: %v\n*** %s does without the MCP Inspector and the conformance tests.", err, t.Name())
		return ""
	}
	return filepath.Join(dir, mcpFolder, program)
}

func fetchMCP(ctx context.Context, dir, out string) error {
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=2000", "--prefix", tmp, inspectorPackage, conformancePackage)
	install.Dir, install.WaitDelay = tmp, time.Second
	if text, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %s", err, text)
	}
	// The Inspector looks for its own description one folder too high.
	description := filepath.Join(tmp, mcpFolder, "package.json")
	if err := os.WriteFile(description, []byte(`{"name":"inspector","version":"0.17.2"}`), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, out)
}
