package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/lab"
)

// appLimit is how long a client of MCP waits for anything, on a busy host.
const appLimit = 3 * time.Minute

// app is this program as a client of MCP starts it, and all that it has written to
// standard output.
type app struct {
	*mcp.ClientSession
	changed chan bool

	written, errors bytes.Buffer // to be read after close
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

// pure fails if anything but messages of the protocol was written.
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

// call calls a tool, and returns the text of the answer.
func (a *app) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	return r.Content[0].(*mcp.TextContent).Text, nil
}

// tryMCP works as alice over MCP, in the room that she has: a command that is cancelled
// leaves nothing behind, and a strange client drives every tool.
func tryMCP(t *testing.T) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	defer ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
	a := openApp(t, "an app", "--agent", "alice")
	if got, err := a.call(t.Context(), "sandbox_exec", map[string]any{"command": "id -un"}); err != nil || !strings.Contains(got, `"stdout":"agent-alice\n"`) {
		t.Errorf("%s %v", got, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := a.call(ctx, "sandbox_exec", map[string]any{"command": "touch cancel-me; sleep 12345 & sleep 12345", "timeout": 300})
		gone <- err
	}()
	until(t, func() bool { code, _ := as(t, "alice", "test -e cancel-me"); return code == 0 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	until(t, func() bool {
		_, out := as(t, "alice", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 1234[5]' || true")
		return out == "0"
	})

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
		// A tool that is not told how to be called says so, in an envelope too.
		if out := inspect(args...); !strings.Contains(out, `"structuredContent"`) || !strings.Contains(out, inspected[name].want) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// inspected is how the Inspector calls tools, and what it then shows.
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
	"sandbox_install":      {[]string{`packages=["--no-name"]`}, `"kind": "invalid_args"`},
	"sandbox_pip_install":  {[]string{`packages=["--no-name"]`}, `"kind": "invalid_args"`},
	"sandbox_npm_install":  {[]string{`packages=["--no-name"]`}, `"kind": "invalid_args"`},
	"share_artifact":       {[]string{"path=nowhere"}, `"kind": "not_found"`},
}

// until waits for something.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(appLimit); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not so after ", appLimit)
		}
	}
}

// TestMCPWithoutGuest is a client that comes before there is a sandbox: it has an agent of its own,
// which may only read, hears of what it is let do, and goes on after the daemon has
// ended.
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
	if code, _, stderr := sandbox(t, "mcp", "--profile", "fat"); code != exitInvalidArgs {
		t.Errorf("a profile that is none: %d, %s", code, stderr)
	}
}

// TestMCPInstall is a person who has a client start the server, and takes it back.
func TestMCPInstall(t *testing.T) {
	newHome(t, "home")
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("XDG_CONFIG_HOME", "")
	real := filepath.Join(user, "dotfiles", "zed.json")
	link := filepath.Join(user, ".config", "zed", "settings.json")
	const before = "{\n  // mine\n  \"context_servers\": {\n    \"x\": {\"command\": \"x\"}\n  }\n}\n"
	for _, dir := range []string{filepath.Dir(real), filepath.Dir(link)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(real, []byte(before), 0o640), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		text, err := os.ReadFile(real)
		info, errInfo := os.Lstat(link)
		if err != nil || errInfo != nil || string(text) != want || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the file is %s, %v, %v", text, err, errors.Join(err, errInfo))
		}
		if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
	}

	out := ok(t, "mcp", "install", "zed", "--dry-run")
	if !strings.Contains(out, "+    \"osaurus-sandbox\": {\n") || !strings.Contains(out, " // mine\n") {
		t.Errorf("%s", out)
	}
	is(before)
	out = ok(t, "mcp", "install", "zed")
	if !strings.Contains(out, "works as the agent zed, which may do everything") || !strings.Contains(out, "own tools for commands and files go on working on this computer") || !strings.Contains(out, "\n+    \"osaurus-sandbox\": {\n") {
		t.Errorf("%s", out)
	}
	if text, err := os.ReadFile(real + backupSuffix); err != nil || string(text) != before {
		t.Errorf("kept: %s, %v", text, err)
	}
	if out := ok(t, "agent", "show", "zed"); !strings.Contains(out, "autonomousExec.enabled       true") {
		t.Errorf("%s", out)
	}
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"context_servers"`
	}
	text, err := os.ReadFile(real)
	if err := errors.Join(err, json.Unmarshal(bytes.Replace(text, []byte("// mine"), nil, 1), &file)); err != nil {
		t.Fatal(err)
	}
	if s := file.Servers["osaurus-sandbox"]; !filepath.IsAbs(s.Command) || strings.Join(s.Args, " ") != "mcp --agent zed" || s.Env[config.HomeVariable] == "" {
		t.Errorf("%+v", s)
	}
	if out := ok(t, "mcp", "install", "zed", "--read-only"); !strings.Contains(out, "starts it already") || !strings.Contains(out, "may only read") {
		t.Errorf("%s", out)
	}
	gone := func(path string) {
		t.Helper()
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stays: %v", path, err)
		}
	}
	ok(t, "mcp", "uninstall", "zed")
	is(before)
	gone(real + backupSuffix)
	if out := ok(t, "mcp", "uninstall", "zed"); !strings.Contains(out, "does not start it") {
		t.Errorf("%s", out)
	}

	const broken = "{ broken"
	if err := os.WriteFile(real, []byte(broken), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"install", "zed", "--agent", "never"}, {"uninstall", "zed"}} {
		if code, _, stderr := sandbox(t, append([]string{"mcp"}, line...)...); code != exitInvalidArgs || !strings.Contains(stderr, "line 1") {
			t.Errorf("%v of a broken file: %d, %s", line, code, stderr)
		}
	}
	if code, _, _ := sandbox(t, "agent", "show", "never"); code != exitNotFound {
		t.Errorf("an agent is made for what cannot be connected: %d", code)
	}
	is(broken)
	ok(t, "mcp", "install", "codex", "--agent", "alice", "--profile", "lean")
	if text, err := os.ReadFile(filepath.Join(user, ".codex", "config.toml")); err != nil || !strings.Contains(string(text), `args = ["mcp", "--agent", "alice", "--profile", "lean"]`) {
		t.Errorf("%s %v", text, err)
	}
	ok(t, "mcp", "uninstall", "codex") // a file that install has made
	gone(filepath.Join(user, ".codex", "config.toml"))
	cursor := filepath.Join(user, ".cursor", "mcp.json")
	ok(t, "mcp", "install", "cursor")
	text, err = os.ReadFile(cursor) // to which the client adds something
	if err := errors.Join(err, os.WriteFile(cursor, bytes.Replace(text, []byte("{"), []byte("{\n  \"theirs\": 1,"), 1), 0o600)); err != nil {
		t.Fatal(err)
	}
	ok(t, "mcp", "uninstall", "cursor")
	if text, err := os.ReadFile(cursor); err != nil || !strings.Contains(string(text), "theirs") || strings.Contains(string(text), "osaurus") {
		t.Errorf("%s %v", text, err)
	}
	gone(cursor + backupSuffix)
	ok(t, "agent", "create", "reader") // whose rights a file that cannot be written leaves alone
	if err := os.Mkdir(cursor+backupSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := sandbox(t, "mcp", "install", "cursor", "--agent", "reader"); code == 0 || !strings.Contains(stderr, backupSuffix) {
		t.Errorf("a copy that cannot be kept: %d, %s", code, stderr)
	}
	if out := ok(t, "agent", "show", "reader"); !strings.Contains(out, "autonomousExec.enabled       false") {
		t.Errorf("%s", out)
	}
	if err := os.Remove(cursor + backupSuffix); err != nil {
		t.Fatal(err)
	}
	var alice struct{ ID string }
	if err := json.Unmarshal([]byte(ok(t, "agent", "show", "alice", "--json")), &alice); err != nil {
		t.Fatal(err)
	}
	var added struct {
		Client, File, Agent string
		Changed             bool
	}
	out = ok(t, "mcp", "install", "cursor", "--agent", alice.ID, "--json")
	if err := json.Unmarshal([]byte(out), &added); err != nil || added.Client != "cursor" || added.File != cursor || added.Agent != "alice" || !added.Changed {
		t.Errorf("%v, %s", err, out)
	}
	if out := ok(t, "mcp", "install", "cursor", "--agent", alice.ID, "--json"); !strings.Contains(out, `"diff": ""`) {
		t.Errorf("it is connected already: %s", out)
	}
	if out := ok(t, "audit", "list", "--agent", alice.ID); out == "" || out != ok(t, "audit", "list", "--agent", "Alice") {
		t.Errorf("the audit of an agent by its id: %s", out)
	}
	nobody := config.NewAgentID()
	for _, line := range [][]string{{"mcp", "install", "cursor"}, {"audit", "list"}} {
		if code, _, stderr := sandbox(t, append(line, "--agent", string(nobody))...); code != exitNotFound {
			t.Errorf("%v for nobody's id: %d, %s", line, code, stderr)
		}
	}
	for agent, told := range map[string]bool{"goose": true, "alice": false} {
		if code, _, stderr := sandbox(t, "mcp", "config", "goose", "--agent", agent); code != 0 || strings.Contains(stderr, "agent create "+agent) != told {
			t.Errorf("%d, %s", code, stderr)
		}
		if out := ok(t, "mcp", "config", "goose", "--agent", agent, "--json"); !strings.Contains(out, fmt.Sprintf(`"agent_exists": %v`, !told)) {
			t.Errorf("%s", out)
		}
	}
	if out := ok(t, "mcp", "config", "goose"); !strings.HasPrefix(out, "extensions:\n  osaurus-sandbox:\n") {
		t.Errorf("%s", out)
	}
	if code, _, stderr := sandbox(t, "mcp", "install", "emacs"); code != exitNotFound || !strings.Contains(stderr, "claude-code") {
		t.Errorf("a client that is not known: %d, %s", code, stderr)
	}
}

// What cannot be read of the agents is not said of them.
func TestMCPConfigWithoutDaemon(t *testing.T) {
	home := config.Home(t.TempDir())
	t.Setenv(config.HomeVariable, string(home))
	t.Setenv("HOME", t.TempDir())
	is := func(exists string, told bool) {
		t.Helper()
		if out := ok(t, "mcp", "config", "goose", "--json"); !strings.Contains(out, `"agent_exists": `+exists) {
			t.Errorf("%s", out)
		}
		if code, _, stderr := sandbox(t, "mcp", "config", "goose"); code != 0 || strings.Contains(stderr, "agent create goose") != told {
			t.Errorf("%d, %s", code, stderr)
		}
	}
	is("false", true)
	if err := os.WriteFile(home.Database(), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	is("null", false)
}

// TestMCPB opens the bundle as an app does, and starts what it says.
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
