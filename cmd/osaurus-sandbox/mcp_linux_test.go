package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/internal/lab"
)

// appLimit bounds the waits of an MCP client on a busy host.
const appLimit = 3 * time.Minute

// app is this program as an MCP client starts it, with its output.
type app struct {
	*mcp.ClientSession
	changed chan bool

	written, errors bytes.Buffer // read only after close
	close           func()
}

func openApp(t *testing.T, name string, args ...string) *app {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &app{changed: make(chan bool, 100)}
	cmd := exec.Command(program, append([]string{"mcp"}, args...)...)
	cmd.Stderr = &a.errors
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { a.changed <- true },
	})
	read := struct {
		io.Reader
		io.Closer
	}{io.TeeReader(out, &a.written), out}
	ctx, cancel := context.WithTimeout(t.Context(), appLimit)
	defer cancel()
	if a.ClientSession, err = client.Connect(ctx, &mcp.IOTransport{Reader: read, Writer: in}, nil); err != nil {
		_ = cmd.Process.Kill()
		t.Fatalf("%v: %v, %s", args, err, a.errors.String())
	}
	a.close = func() {
		t.Helper()
		_ = a.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v, %s", err, a.errors.String())
		}
	}
	return a
}

// pure fails if standard output has anything but messages of the protocol.
func (a *app) pure(t *testing.T) {
	t.Helper()
	for lines := bufio.NewScanner(&a.written); lines.Scan(); {
		var m struct{ JSONRPC string }
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.JSONRPC != "2.0" {
			t.Errorf("on standard output: %.200q", lines.Text())
		}
	}
}

func (a *app) names(t *testing.T) (names []string) {
	t.Helper()
	r, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// call calls a tool and returns the answer's text.
func (a *app) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	return r.Content[0].(*mcp.TextContent).Text, nil
}

// tryMCP works as alice over MCP, in her room. The MCP Inspector calls every tool.
func tryMCP(t *testing.T) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	defer ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
	a := openApp(t, "an app", "--agent", "alice")
	if got, err := a.call(t.Context(), "sandbox_exec", map[string]any{"command": "id -un"}); err != nil || !strings.Contains(got, `"stdout":"agent-alice\n"`) {
		t.Errorf("%s %v", got, err)
	}

	names := a.names(t)
	a.close()
	a.pure(t)
	inspector := lab.Inspector(t)
	if inspector == "" {
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inspect := func(args ...string) (answer string) {
		out, err := exec.Command("node", append([]string{inspector, program, "mcp", "--agent", "alice"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v, %s", args, err, out)
		}
		return string(out)
	}
	if out := inspect("--method", "tools/list"); strings.Count(out, `"inputSchema"`) != len(names) {
		t.Errorf("%d tools: %s", len(names), out)
	}
	for _, name := range names {
		args := []string{"--method", "tools/call", "--tool-name", name}
		for _, argument := range inspected[name].arguments {
			args = append(args, "--tool-arg", argument)
		}
		// Without arguments, a tool answers with an envelope too.
		if out := inspect(args...); !strings.Contains(out, `"structuredContent"`) || !strings.Contains(out, inspected[name].want) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// inspected maps tools to the Inspector's arguments and a part of the output.
var inspected = map[string]struct {
	arguments []string
	want      string
}{
	"sandbox_exec":         {[]string{"command=echo inspected"}, `"stdout": "inspected\n"`},
	"sandbox_execute_code": {[]string{"code=print(6 * 7)"}, `42`},
	"sandbox_write_file":   {[]string{"path=inspected.txt", "content=one\ntwo\n"}, `"action": "create"`},
	"sandbox_edit_file":    {[]string{"path=nowhere", "old_string=a", "new_string=b"}, `"kind": "not_found"`},
	"sandbox_read_file":    {[]string{"path=~"}, `"kind": "listing"`},
	"sandbox_search_files": {[]string{"pattern=*", "target=files"}, `"match_count"`},
	"sandbox_process":      {[]string{"action=list"}, `"jobs"`},
	"sandbox_secret_check": {[]string{"key=NO_SUCH_SECRET"}, `"exists": false`},
	"sandbox_secret_set":   {[]string{"key=not a name", "description=d", "instructions=i", "value=v"}, `"kind": "invalid_args"`},
	"sandbox_undo":         {[]string{"call=9999"}, `"kind": "not_found"`},
	"sandbox_install":      {[]string{`packages=["--no-name"]`}, `"kind": "invalid_args"`},
	"sandbox_pip_install":  {[]string{`packages=["--no-name"]`}, `"kind": "invalid_args"`},
	"sandbox_npm_install":  {[]string{`packages=["--no-name"]`}, `"kind": "invalid_args"`},
	"share_artifact":       {[]string{"path=nowhere"}, `"kind": "not_found"`},
}

// A client that connects without a sandbox gets an agent that may only read, is told when it may do
// more, and survives the end of the daemon.
func TestMCPWithoutGuest(t *testing.T) {
	newHome(t, "home")
	a := openApp(t, "An App")
	before := a.names(t)
	if slices.Contains(before, "sandbox_exec") || !strings.Contains(a.InitializeResult().Instructions, "agent set an-app autonomousExec.enabled=true") {
		t.Errorf("%v, %s", before, a.InitializeResult().Instructions)
	}
	ok(t, "agent", "set", "an-app", "autonomousExec.enabled=true")
	select {
	case <-a.changed:
	case <-time.After(appLimit):
		t.Fatal("it does not hear that it has more tools")
	}
	ok(t, "down", "--daemon")
	if after := a.names(t); !slices.Contains(after, "sandbox_exec") {
		t.Errorf("after the daemon's end: %v", after)
	}
	a.close()
	a.pure(t)
}

// TestMCPB opens the bundle like an app, and runs its command.
func TestMCPB(t *testing.T) {
	newHome(t, "home")
	const program = "a program"
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	pack := exec.Command("scripts/mcpb", path, "v1.2.3", filepath.Join(dir, "out", "a.mcpb"), "linux")
	pack.Dir = lab.Root(t)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bundle, err := zip.OpenReader(filepath.Join(dir, "out", "a.mcpb"))
	if err != nil {
		t.Fatal(err)
	}
	defer bundle.Close()
	file := func(name string) []byte {
		f, err := bundle.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		info, errInfo := f.Stat()
		if err := errors.Join(err, errInfo); err != nil {
			t.Fatal(err)
		}
		if name != "manifest.json" && info.Mode().Perm() != 0o755 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return text
	}
	var manifest struct {
		Version string
		Server  struct {
			EntryPoint string `json:"entry_point"`
			Config     struct {
				Command string
				Args    []string
			} `json:"mcp_config"`
		}
		UserConfig map[string]struct{ Default string } `json:"user_config"`
	}
	if err := json.Unmarshal(file("manifest.json"), &manifest); err != nil || manifest.Version != "1.2.3" || manifest.Server.Config.Command != "${__dirname}/"+manifest.Server.EntryPoint {
		t.Errorf("%+v %v", manifest, err)
	}
	if string(file(manifest.Server.EntryPoint)) != program {
		t.Error("the program in it is another")
	}
	args := manifest.Server.Config.Args
	for key, setting := range manifest.UserConfig {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "${user_config."+key+"}", setting.Default)
		}
	}
	ok(t, args...)
}
