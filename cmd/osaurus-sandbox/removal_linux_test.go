package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
)

// systemctl stands in for the service manager: a file says that the service runs.
const systemctl = `#!/bin/sh
case "$*" in
*is-active*) [ -e "$0.runs" ] ;;
*restart*) touch "$0.runs" ;;
*disable*) rm -f "$0.runs" ;;
esac
`

// TestRemoveEverything follows docs/operators.md, after which nothing is left: no secret, service,
// daemon or client's entry, and no file but the home folder.
func TestRemoveEverything(t *testing.T) {
	user, bin := t.TempDir(), t.TempDir()
	home := config.Home(filepath.Join(user, ".osaurus"))
	temp := filepath.Join(user, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": user, "XDG_CONFIG_HOME": "", "TMPDIR": temp, config.HomeVariable: "", asProgram: "1",
		agefile.PassphraseFileVariable: "", "PATH": bin + ":" + os.Getenv("PATH"),
	} {
		t.Setenv(name, value)
	}
	before := files(t, user)

	ok(t, "config", "set", "secrets=file", "autoStart=false")
	ok(t, "service", "install")
	t.Cleanup(func() { endDaemon(t); _ = os.RemoveAll(string(home)) })
	ok(t, "mcp", "install", "zed", "--agent", "alice")
	var agent struct{ ID config.AgentID }
	if err := json.Unmarshal([]byte(ok(t, "agent", "show", "alice", "--json")), &agent); err != nil {
		t.Fatal(err)
	}
	feed(t, secretToken, "secret", "set", "alice", "TOKEN")
	feed(t, secretToken, "secret", "set", "alice", "TOKEN", "--plugin", "p")
	feed(t, secretToken, "secret", "set", secrets.HostName, "INFERENCE_API_KEY")

	text, err := os.ReadFile("../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("**Remove everything**"))
	text, _, _ = bytes.Cut(text, []byte("; then the home folder"))
	names := strings.NewReplacer("CLIENT", "zed", "delete NAME", "delete alice --yes")
	for _, command := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(text, -1) {
		ok(t, strings.Fields(names.Replace(string(command[1])))...)
	}

	for _, id := range []config.AgentID{agent.ID, secrets.Host} {
		if keys, err := agefile.New(home, nil).List(t.Context(), id); err != nil || len(keys) > 0 {
			t.Errorf("secrets of %s are left: %v, %v", id, keys, err)
		}
	}
	for _, left := range []string{filepath.Join(home.Run(), "sandbox.sock"), filepath.Join(bin, "systemctl.runs")} {
		if _, err := os.Lstat(left); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
	if t.Failed() {
		return // the daemon is ended through its home
	}
	if err := os.RemoveAll(string(home)); err != nil {
		t.Fatal(err)
	}
	if left := files(t, user); !slices.Equal(left, before) {
		t.Errorf("%q are left, there were %q", left, before)
	}
}

// files returns the files below a folder, without its folders.
func files(t *testing.T, folder string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
