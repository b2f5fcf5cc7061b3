package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// code runs Python for alice, and returns what it printed and the whole envelope.
func code(t *testing.T, text string, more map[string]any) (stdout string, envelope map[string]any) {
	t.Helper()
	arguments := map[string]any{"code": text}
	for key, value := range more {
		arguments[key] = value
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	_, out, stderr := sandbox(t, "tool", "call", "alice", "sandbox_execute_code", string(raw), "--json")
	if err := json.Unmarshal([]byte(out), &envelope); err != nil {
		t.Fatalf("%v in %q, %s", err, out, stderr)
	}
	result, _ := envelope["result"].(map[string]any)
	stdout, _ = result["stdout"].(string)
	return stdout, envelope
}

// tryCode has the room's own Python call tools: what only a real room shows.
func tryCode(t *testing.T, home config.Home) {
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	defer ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
	t.Run("every function", func(t *testing.T) {
		out, e := code(t, `
from osaurus_tools import *
print(write_file("code/a.txt", "one\ntwo\n")["action"])
print(edit_file("code/a.txt", "two", "three")["line"])
print(read_file("code/a.txt", start_line=2)["content"], end="")
print(search_files("thr.e", path="code")["match_count"], search_files("*.txt", "files", path="code")["match_count"])
print(terminal("cat a.txt; pwd", cwd="code")["stdout"], end="")
print(share_artifact("code/a.txt", description="a text")["name"], share_artifact(content="# Report", filename="report.md")["size"])
try: read_file("/etc/shadow")
except SandboxToolError as e: print(e.kind, e.field, e.envelope["reason"])
`, nil)
		if want := "create\n2\nthree\n1 1\none\nthree\n/workspace/agents/alice/code\na.txt 8\ninvalid_args path outside_allowed_roots\n"; out != want {
			t.Errorf("%v", e)
		}
		if text, err := os.ReadFile(filepath.Join(home.Artifacts(), "default", "a.txt")); err != nil || string(text) != "one\nthree\n" {
			t.Errorf("%q, %v", text, err)
		}
	})
	t.Run("51 calls", func(t *testing.T) {
		out, e := code(t, `
from osaurus_tools import *
try:
    for i in range(51): read_file(".")
except SandboxToolError as e: print(i, e.kind)
`, nil)
		if calls := e["result"].(map[string]any)["tool_calls"]; out != "50 rejected\n" || calls != 50.0 {
			t.Errorf("%v", e)
		}
	})
	t.Run("an exception", func(t *testing.T) {
		_, e := code(t, "raise ValueError('of its own')", nil)
		if r := e["result"].(map[string]any); r["exit_code"] != 1.0 || !strings.Contains(r["stderr"].(string), "ValueError: of its own") {
			t.Errorf("%v", e)
		}
	})
	t.Run("much output", func(t *testing.T) {
		out, e := code(t, "print('x' * 1_000_000)", nil)
		if len(out) > maxShown || e["result"].(map[string]any)["truncated"] != true {
			t.Errorf("%d bytes", len(out))
		}
	})
	t.Run("for too long, with what it started", func(t *testing.T) {
		_, e := code(t, "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '75319'])\ntime.sleep(600)", map[string]any{"timeout": 5})
		if e["result"].(map[string]any)["timed_out"] != true {
			t.Errorf("%v", e)
		}
		if code, out := as(t, "alice", "pgrep -f 'sleep [7]5319'"); code != 1 || out != "" {
			t.Errorf("it left %d, %s", code, out)
		}
	})
	t.Run("as another agent, and after its end", func(t *testing.T) {
		const ask = `curl --silent --unix-socket /run/osaurus-bridge.sock --header "Authorization: Bearer $(cat /run/osaurus/$(id -un).token)" \
			--header "X-Osaurus-Script-Id: $(cat /workspace/shared/script)" http://osaurus/api/sandbox-tool/sandbox_read_file --data '{"path":"."}'`
		asked := make(chan string, 1)
		go func() {
			_, out := as(t, "bob", "until [ -s /workspace/shared/script ]; do sleep 0.1; done; "+ask+"; touch /workspace/shared/asked", "--timeout", "300s")
			asked <- out
		}()
		_, e := code(t, `
import os, time
with open("/workspace/shared/.script", "w") as f: f.write(os.environ["OSAURUS_SCRIPT_ID"])
os.rename("/workspace/shared/.script", "/workspace/shared/script")
while not os.path.exists("/workspace/shared/asked"): time.sleep(0.1)
`, nil)
		if result, _ := e["result"].(map[string]any); e["ok"] != true || result["exit_code"] != 0.0 {
			t.Fatalf("%v", e) // nobody asks what has not begun
		}
		_, after := as(t, "alice", ask)
		for who, got := range map[string]string{"bob": <-asked, "alice": after} {
			if !strings.Contains(got, "no script of this agent runs under this id") {
				t.Errorf("%s: %s", who, got)
			}
		}
	})
}

// tryArtifacts shares what a hostile agent may have, and has a person look at it.
func tryArtifacts(t *testing.T, home config.Home) {
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	defer ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
	if code, out := as(t, "alice", `mkdir -p hand/in/deep hand/empty && cd hand && echo one > in/deep/a.txt && echo two > in/b.txt && ln -s /etc/passwd in/link && ln -s /etc/passwd out &&
		mkfifo /tmp/handed && ln -s in/b.txt beside && truncate -s 300M large && printf x > "$(printf 'a\033[31mb')" && mkdir -p bad && printf x > "bad/$(printf '\342\200\256gnp.exe')" &&
		ln -s /etc bad-folder && printf '\211PNG\r\n\032\n' > picture.png && mkdir Evil.app && echo x > Evil.app/x`); code != 0 {
		t.Fatal(out)
	}
	share := func(t *testing.T, arguments string) map[string]any {
		t.Helper()
		_, out, stderr := sandbox(t, "tool", "call", "alice", "share_artifact", arguments, "--json", "--conversation", "chat-7")
		var e map[string]any
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatalf("%v in %q, %s", err, out, stderr)
		}
		return e
	}
	for _, tc := range []struct {
		name, arguments string
		want            map[string]any
	}{
		{"a link that leads out", `{"path":"hand/out"}`, map[string]any{"kind": "invalid_args", "field": "path"}},
		{"through a folder that leads out", `{"path":"hand/bad-folder/passwd"}`, map[string]any{"kind": "invalid_args", "field": "path"}},
		{"a pipe", `{"path":"/tmp/handed"}`, map[string]any{"kind": "rejected"}},
		{"another agent's", `{"path":"/workspace/agents/bob/mine"}`, map[string]any{"kind": "invalid_args", "reason": "outside_allowed_roots"}},
		{"the room's own", `{"path":"/etc/passwd"}`, map[string]any{"kind": "invalid_args", "reason": "outside_allowed_roots"}},
		{"nothing", `{"path":"hand/nothing"}`, map[string]any{"kind": "not_found", "field": "path"}},
		{"neither", `{}`, map[string]any{"kind": "invalid_args", "field": "path"}},
		{"too large", `{"path":"hand/large"}`, map[string]any{"kind": "rejected"}},
		{"an empty folder", `{"path":"hand/empty"}`, map[string]any{"kind": "invalid_args", "field": "path"}},
		{"a name that colours terminals", `{"path":"hand/a\u001b[31mb"}`, map[string]any{"kind": "invalid_args", "field": "path"}},
		{"a folder with a name that lies", `{"path":"hand/bad"}`, map[string]any{"kind": "invalid_args", "field": "path"}},
		{"a name that is a path", `{"content":"x","filename":"../x"}`, map[string]any{"kind": "invalid_args", "field": "filename"}},
		{"under another name", `{"path":"hand/a\u001b[31mb","filename":"ab.txt"}`, map[string]any{"name": "ab.txt", "size": 1.0, "session": "chat-7"}},
		{"a link beside it", `{"path":"hand/beside"}`, map[string]any{"name": "beside", "size": 4.0}},
		{"a picture", `{"path":"hand/picture.png","description":"a\u001b[2Jb"}`, map[string]any{"name": "picture.png", "content_type": "image/png"}},
		{"it again", `{"path":"hand/picture.png"}`, map[string]any{"name": "picture-2.png"}},
		{"a folder", `{"path":"hand/in"}`, map[string]any{"name": "in", "files": 2.0, "size": 8.0, "content_type": "inode/directory"}},
		{"a program of a Mac", `{"path":"hand/Evil.app"}`, map[string]any{"name": "Evil.app"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := share(t, tc.arguments)
			got, _ := e["result"].(map[string]any)
			if _, fails := tc.want["kind"]; fails && got == nil {
				got = e
			}
			for key, want := range tc.want {
				if got[key] != want {
					t.Errorf("%s: %v, want %v in %v", key, got[key], want, e)
				}
			}
		})
	}

	type row struct {
		ID, Name, Session, Description, Path string
		Folder                               bool
	}
	rows := map[string]row{}
	for line := range strings.Lines(ok(t, "artifacts", "list", "alice", "--conversation", "chat-7", "--json")) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		rows[r.Name] = r
	}
	if len(rows) != 6 || rows["picture.png"].Description != "a·[2Jb" || rows["picture.png"].Path != filepath.Join(home.Artifacts(), "chat-7", "picture.png") {
		t.Errorf("%+v", rows)
	}
	if out := ok(t, "artifacts", "list"); !strings.Contains(out, "Evil.app/") || strings.Contains(out, "\x1b") {
		t.Error(out)
	}
	opened := filepath.Join(t.TempDir(), "opened")
	desktop(t, "#!/bin/sh\necho \"$1\" >> "+opened+"\n")
	for _, name := range []string{"picture.png", "in", "beside", "Evil.app"} {
		ok(t, "artifacts", "open", rows[name].ID)
	}
	if text, err := os.ReadFile(opened); err != nil || string(text) != rows["picture.png"].Path+"\n"+rows["in"].Path+"\n" {
		t.Errorf("opened were %s, %v", text, err)
	}
	t.Setenv("DISPLAY", "")
	if out := ok(t, "artifacts", "open", rows["picture.png"].ID); out != rows["picture.png"].Path+"\n" {
		t.Errorf("without a desktop: %s", out)
	}

	to := t.TempDir()
	ok(t, "artifacts", "save", rows["in"].ID, to)
	for name, want := range map[string]string{"in/deep/a.txt": "one\n", "in/b.txt": "two\n"} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "in", "link")); !os.IsNotExist(err) {
		t.Errorf("a link came out: %v", err)
	}
	if out := ok(t, "artifacts", "save", rows["ab.txt"].ID, "-"); out != "x" {
		t.Errorf("%q", out)
	}
	for want, args := range map[int][]string{
		fault.ExitRejected:    {"save", rows["in"].ID, to},
		fault.ExitInvalidArgs: {"save", rows["in"].ID, "-"},
		fault.ExitNotFound:    {"open", "4711"},
	} {
		if code, _, stderr := sandbox(t, append([]string{"artifacts"}, args...)...); code != want {
			t.Errorf("%v: %d, %s", args, code, stderr)
		}
	}
	var ids []string
	for line := range strings.Lines(ok(t, "artifacts", "list", "--json")) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if code, _, _ := sandbox(t, "artifacts", "delete", ids[0]); code != fault.ExitInvalidArgs {
		t.Errorf("without a word: %d", code)
	}
	ok(t, slices.Concat([]string{"artifacts", "delete", "--yes"}, ids)...)
	if left, err := os.ReadDir(home.Artifacts()); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if out := ok(t, "audit", "list"); strings.Count(out, "artifact.delete") != 2*len(ids) {
		t.Error(fmt.Sprint(len(ids), " are deleted, and the audit says\n", out))
	}
}

// desktop has a desktop be there whose way to open files is a script.
func desktop(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DISPLAY", ":0")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}
