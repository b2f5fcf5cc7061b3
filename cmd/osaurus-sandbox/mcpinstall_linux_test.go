package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// TestMCPInstall connects and disconnects clients.
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
	if !strings.Contains(out, "works as the agent zed, which may do everything") || !strings.Contains(out, "own tools for commands and files still work on this computer") || !strings.Contains(out, "\n+    \"osaurus-sandbox\": {\n") {
		t.Errorf("%s", out)
	}
	holds(t, real+backupSuffix, before)
	shows(t, "autonomousExec.enabled       true", "agent", "show", "zed")
	text, err := os.ReadFile(real)
	if program, _ := os.Executable(); err != nil || !strings.Contains(string(text), program) || !strings.Contains(string(text), config.HomeVariable) {
		t.Errorf("%s, %v", text, err)
	}
	if out := ok(t, "mcp", "install", "zed", "--read-only"); !strings.Contains(out, "is connected already") || !strings.Contains(out, "may only read") {
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
	shows(t, "was not connected", "mcp", "uninstall", "zed")

	const broken = "{ broken"
	if err := os.WriteFile(real, []byte(broken), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"install", "zed", "--agent", "never"}, {"uninstall", "zed"}} {
		fails(t, fault.ExitInvalidArgs, "line 1", append([]string{"mcp"}, line...)...)
	}
	fails(t, fault.ExitNotFound, "", "agent", "show", "never")
	is(broken)
	ok(t, "mcp", "install", "codex", "--agent", "alice", "--profile", "lean")
	if text, err := os.ReadFile(filepath.Join(user, ".codex", "config.toml")); err != nil || !strings.Contains(string(text), `args = ["mcp","--agent","alice","--profile","lean"]`) {
		t.Errorf("%s %v", text, err)
	}
	ok(t, "mcp", "uninstall", "codex") // install created the file
	gone(filepath.Join(user, ".codex", "config.toml"))
	cursor := filepath.Join(user, ".cursor", "mcp.json")
	ok(t, "mcp", "install", "cursor")
	text, err = os.ReadFile(cursor) // the client adds something to it
	if err := errors.Join(err, os.WriteFile(cursor, bytes.Replace(text, []byte("{"), []byte("{\n  \"theirs\": 1,"), 1), 0o600)); err != nil {
		t.Fatal(err)
	}
	ok(t, "mcp", "uninstall", "cursor")
	if text, err := os.ReadFile(cursor); err != nil || !strings.Contains(string(text), "theirs") || strings.Contains(string(text), "osaurus") {
		t.Errorf("%s %v", text, err)
	}
	gone(cursor + backupSuffix)
	ok(t, "agent", "create", "reader") // its rights stay if the file cannot be written
	if err := os.Mkdir(cursor+backupSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	fails(t, fault.ExitUnavailable, backupSuffix, "mcp", "install", "cursor", "--agent", "reader")
	shows(t, "autonomousExec.enabled       false", "agent", "show", "reader")
	text, err = os.ReadFile(cursor)
	if err := errors.Join(err, os.Remove(cursor+backupSuffix)); err != nil {
		t.Fatal(err)
	}
	ok(t, "mcp", "install", "cursor")
	ok(t, "mcp", "install", "cursor", "--profile", "lean") // the copy is from before the first
	holds(t, cursor+backupSuffix, string(text))
	ok(t, "mcp", "uninstall", "cursor")
	var alice struct{ ID string }
	if err := json.Unmarshal([]byte(ok(t, "agent", "show", "alice", "--json")), &alice); err != nil {
		t.Fatal(err)
	}
	shows(t, `"agent": "alice"`, "mcp", "install", "cursor", "--agent", alice.ID, "--json")
	shows(t, `"diff": ""`, "mcp", "install", "cursor", "--agent", alice.ID, "--json")
	if out := ok(t, "audit", "list", "--agent", alice.ID); out == "" || out != ok(t, "audit", "list", "--agent", "Alice") {
		t.Errorf("the audit of an agent by its id: %s", out)
	}
	nobody := config.NewAgentID()
	for _, line := range [][]string{{"mcp", "install", "cursor"}, {"audit", "list"}} {
		fails(t, fault.ExitNotFound, "", append(line, "--agent", string(nobody))...)
	}
	shows(t, `"agent": "alice"`, "mcp", "config", "goose", "--agent", "alice", "--json")
	if out := ok(t, "mcp", "config", "goose"); !strings.HasPrefix(out, "extensions:\n  osaurus-sandbox:\n") {
		t.Errorf("%s", out)
	}
	fails(t, fault.ExitNotFound, "claude-code", "mcp", "install", "emacs")
}
