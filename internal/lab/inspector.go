package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// inspectorPackage is the command line of the MCP Inspector, which Node 20 runs, and
// inspectorFolder where it is once it is installed.
const (
	inspectorPackage = "@modelcontextprotocol/inspector-cli@0.17.2"
	inspectorKept    = "mcp-inspector-0.17.2"
	inspectorFolder  = "node_modules/@modelcontextprotocol"
)

// Inspector returns the program of the MCP Inspector's command line, for Node to run:
// a client of MCP that others wrote. It is fetched with this host's npm; without one, or
// where its registry cannot be reached, it is "", and a loud log line.
func Inspector(t testing.TB) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("\n*** NO %s on this host: %v\n*** %s does without the MCP Inspector.", program, err, t.Name())
			return ""
		}
	}
	if _, err := os.Stat(filepath.Join(labDir(t), "any", inspectorKept)); err != nil {
		if text, err := exec.CommandContext(t.Context(), "npm", "view", inspectorPackage, "version").CombinedOutput(); err != nil {
			t.Logf("\n*** NO REGISTRY of npm in reach: %v, %s\n*** %s does without the MCP Inspector.", err, text, t.Name())
			return ""
		}
	}
	dir := once(t, "any", inspectorKept, func(ctx context.Context, dir, out string) error {
		tmp, err := os.MkdirTemp(dir, "fetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		install := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", tmp, inspectorPackage)
		install.Dir = tmp
		if text, err := install.CombinedOutput(); err != nil {
			return fmt.Errorf("npm install: %w: %s", err, text)
		}
		// It looks for its own description one folder too high.
		description := filepath.Join(tmp, inspectorFolder, "package.json")
		if err := os.WriteFile(description, []byte(`{"name":"inspector","version":"0.17.2"}`), 0o644); err != nil {
			return err
		}
		return os.Rename(tmp, out)
	})
	return filepath.Join(dir, inspectorFolder, "inspector-cli", "build", "index.js")
}
