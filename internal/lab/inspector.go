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
	inspectorFolder  = "node_modules/@modelcontextprotocol"
)

// Inspector returns the program of the MCP Inspector's command line, for Node to run:
// a client of MCP that others wrote. It is fetched with this host's npm; without one it is
// "", and a loud log line.
func Inspector(t testing.TB) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("\n*** NO %s on this host: %v\n*** %s does without the MCP Inspector.", program, err, t.Name())
			return ""
		}
	}
	dir := once(t, "any", "mcp-inspector-0.17.2", func(ctx context.Context, dir, out string) error {
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
