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

// tryTools calls every tool for alice, in the room that she has: what goes well, and each
// way in which it does not.
func tryTools(t *testing.T, home config.Home) {
	ok(t, "config", "set", "secrets=file")
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	// call is the envelope of a call whose arguments are a JSON object.
	call := func(t *testing.T, tool, arguments string) map[string]any {
		t.Helper()
		_, out, stderr := sandbox(t, "tool", "call", "alice", tool, arguments, "--json")
		var e map[string]any
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatalf("%s %s: %v in %q, %s", tool, arguments, err, out, stderr)
		}
		return e
	}
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(home.AgentHome("alice"), name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	var job string // of the job that a case started
	for _, tc := range []struct {
		name, tool, arguments string
		want                  map[string]any // of the result, or with "kind" of the failure
		after                 func(t *testing.T, result map[string]any)
	}{
		{"a new file", "sandbox_write_file", `{"path":"src/a.go","content":"package a\n\nfunc One() {}\nfunc Two() {}\n"}`,
			map[string]any{"action": "create", "path": "/workspace/agents/alice/src/a.go", "size": 39.0}, nil},
		{"over it", "sandbox_write_file", `{"path":"~/src/a.go","content":"package a\n\nfunc One() {}\nfunc Three() {}\n"}`,
			map[string]any{"action": "update", "diff": "--- /workspace/agents/alice/src/a.go\n+++ /workspace/agents/alice/src/a.go\n@@ -1,4 +1,4 @@\n package a\n \n func One() {}\n-func Two() {}\n+func Three() {}\n"}, nil},
		{"to its end", "sandbox_write_file", `{"path":"src/a.go","content":"// end\n","mode":"APPEND"}`, map[string]any{"action": "update", "mode": "append"},
			func(t *testing.T, _ map[string]any) {
				if got := file("src/a.go"); !strings.HasSuffix(got, "Three() {}\n// end\n") {
					t.Error(got)
				}
			}},
		{"a large file", "sandbox_write_file", fmt.Sprintf(`{"path":"large.txt","content":%q}`, strings.Repeat("a line\n", 40_000)), map[string]any{"action": "create", "size": 280_000.0}, nil},
		{"to a folder", "sandbox_write_file", `{"path":"src","content":""}`, map[string]any{"kind": "invalid_args", "field": "path"}, nil},
		{"outside", "sandbox_write_file", `{"path":"/etc/passwd","content":""}`, map[string]any{"kind": "invalid_args", "field": "path", "reason": "outside_allowed_roots"}, nil},

		{"read", "sandbox_read_file", `{"path":"src/a.go","start_line":"3","line_count":1}`, map[string]any{"kind": "file", "content": "func One() {}\n", "line_count": 1.0}, nil},
		{"read the end", "sandbox_read_file", `{"path":"src/a.go","tail_lines":1}`, map[string]any{"content": "// end\n"}, nil},
		{"read a part", "sandbox_read_file", `{"path":"large.txt","max_chars":21}`, map[string]any{"content": strings.Repeat("a line\n", 3), "truncated": true, "next": "call again with offset 21, or for whole lines with start_line 4", "next_offset": 21.0}, nil},
		{"list", "sandbox_read_file", `{"path":"src"}`, map[string]any{"kind": "listing", "entry_count": 1.0}, nil},
		{"read nothing", "sandbox_read_file", `{"path":"nothing"}`, map[string]any{"kind": "not_found", "field": "path", "retryable": false}, nil},
		{"read through a link that leads out", "sandbox_read_file", `{"path":"out"}`, map[string]any{"kind": "invalid_args", "field": "path"}, nil},
		{"read a pipe", "sandbox_read_file", `{"path":"/tmp/pipe"}`, map[string]any{"kind": "rejected"}, nil},
		{"read of bob", "sandbox_read_file", `{"path":"/workspace/agents/bob/mine"}`, map[string]any{"kind": "invalid_args", "reason": "outside_allowed_roots"}, nil},

		{"search", "sandbox_search_files", `{"pattern":"func \\w+\\(","path":"src","context_lines":0}`, map[string]any{"match_count": 2.0, "files_searched": 1.0}, nil},
		{"search for names", "sandbox_search_files", `{"pattern":"*.go","target":"files"}`, map[string]any{"match_count": 1.0}, nil},
		{"search for what begins with a dash", "sandbox_search_files", `{"pattern":"--pre=sh"}`, map[string]any{"match_count": 0.0}, nil},
		{"search for what is no pattern", "sandbox_search_files", `{"pattern":"a(b"}`, map[string]any{"kind": "invalid_args", "field": "pattern"}, nil},
		{"search with a limit", "sandbox_search_files", `{"pattern":"line","path":"large.txt","max_results":7}`, map[string]any{"match_count": 7.0, "truncated": true}, nil},

		{"edit", "sandbox_edit_file", `{"path":"src/a.go","old_string":"func One() {}\n","new_string":""}`, map[string]any{"summary": "replaced 1 line(s) with 0 line(s)", "line": 3.0}, nil},
		{"edit what is not there", "sandbox_edit_file", `{"path":"src/a.go","old_string":"func Two() {}","new_string":""}`, map[string]any{"kind": "execution_error", "retryable": false, "field": "old_string"}, nil},
		{"edit what is there twice", "sandbox_edit_file", `{"path":"large.txt","old_string":"a line\n","new_string":""}`, map[string]any{"kind": "execution_error", "match_count": 100.0}, nil},
		{"edit a file that is protected", "sandbox_edit_file", `{"path":"protected","old_string":"a","new_string":"b"}`, map[string]any{"kind": "rejected"}, nil},

		{"exec", "sandbox_exec", `{"command":"echo out; echo err >&2; exit 3","cwd":"src"}`,
			map[string]any{"stdout": "out\n", "stderr": "err\n", "exit_code": 3.0, "cwd": "/workspace/agents/alice/src"}, nil},
		{"exec with a pipe that breaks", "sandbox_exec", `{"command":"false | cat"}`, map[string]any{"exit_code": 1.0}, nil},
		{"exec without a word", "sandbox_exec", `{"command":"echo; sleep 100","idle_timeout":2}`, map[string]any{"idle_timed_out": true}, nil},
		{"exec with much output", "sandbox_exec", `{"command":"seq 1 50000"}`, map[string]any{"truncated": true},
			func(t *testing.T, r map[string]any) {
				if out := r["stdout"].(string); !strings.HasPrefix(out, "1\n2\n") || !strings.HasSuffix(out, "\n50000\n") || len(out) > maxShown || !strings.Contains(out, "left out") {
					t.Errorf("%d bytes: %.30q … %q", len(out), out, out[len(out)-30:])
				}
			}},
		{"exec nowhere", "sandbox_exec", `{"command":"true","cwd":"nowhere"}`, map[string]any{"kind": "invalid_args", "field": "cwd"}, nil},
		{"exec in a session", "sandbox_exec", `{"command":"cd src; A=kept","session":"s"}`, map[string]any{"exit_code": 0.0, "cwd": "/workspace/agents/alice/src"}, nil},
		{"exec in it again", "sandbox_exec", `{"command":"echo $A","session":"s"}`, map[string]any{"stdout": "kept\n", "cwd": "/workspace/agents/alice/src"}, nil},
		{"exec beside it", "sandbox_exec", `{"command":"echo =$A","session":"s","fresh":"yes"}`, map[string]any{"stdout": "=\n", "cwd": "/workspace/agents/alice"}, nil},

		{"exec in the background", "sandbox_exec", `{"command":"echo started; sleep 300","background":true}`, map[string]any{"background": true},
			func(t *testing.T, r map[string]any) {
				job, _ = r["job_id"].(string)
				if code, out := as(t, "alice", "until grep started "+fmt.Sprint(r["log_file"])+"; do sleep 0.1; done"); code != 0 || out != "started" {
					t.Errorf("its log: %d, %s", code, out)
				}
			}},
		{"poll it", "sandbox_process", `{"action":"poll","job_id":"JOB"}`, map[string]any{"alive": true, "exited": false, "log_tail": "started\n"}, nil},
		{"wait for it", "sandbox_process", `{"action":"wait","job_id":"JOB","timeout":1}`, map[string]any{"timed_out": true}, nil},
		{"list it", "sandbox_process", `{"action":"list"}`, nil, func(t *testing.T, r map[string]any) {
			jobs, _ := r["jobs"].([]any)
			if !slices.ContainsFunc(jobs, func(j any) bool { return j.(map[string]any)["job_id"] == job }) {
				t.Errorf("%v", r)
			}
		}},
		{"kill it", "sandbox_process", `{"action":"kill","job_id":"JOB"}`, map[string]any{"killed": true, "signal": "SIGTERM", "exit_code": 143.0}, nil},
		{"poll nobody's", "sandbox_process", `{"action":"poll","pid":"1"}`, map[string]any{"kind": "not_found", "field": "pid"}, nil},

		{"no secret", "sandbox_secret_check", `{"key":"TOOL_KEY"}`, map[string]any{"exists": false}, nil},
		{"a secret", "sandbox_secret_set", `{"key":"TOOL_KEY","description":"d","instructions":"i","value":"hunter-2222"}`, map[string]any{"stored": true}, nil},
		{"there it is", "sandbox_secret_check", `{"key":"TOOL_KEY"}`, map[string]any{"exists": true}, nil},
		{"and nobody reads it", "sandbox_exec", `{"command":"osaurus-host secrets get TOOL_KEY | tee leaked"}`, map[string]any{"stdout": "[REDACTED:TOOL_KEY]\n"}, nil},
		{"also in files", "sandbox_read_file", `{"path":"leaked"}`, map[string]any{"content": "[REDACTED:TOOL_KEY]\n"}, nil},
		{"no name for a secret", "sandbox_secret_set", `{"key":"not a name","description":"d","instructions":"i","value":"x"}`, map[string]any{"kind": "invalid_args", "field": "key"}, nil},
	} {
		switch tc.name {
		case "read through a link that leads out":
			if code, out := as(t, "alice", "ln -s /etc/passwd out; mkfifo /tmp/pipe; echo a > protected; chmod 444 protected"); code != 0 {
				t.Fatal(out)
			}
		}
		t.Run(tc.name, func(t *testing.T) {
			e := call(t, tc.tool, strings.ReplaceAll(tc.arguments, "JOB", job))
			got, _ := e["result"].(map[string]any)
			if _, fails := tc.want["kind"]; fails && got == nil {
				got = e
			}
			if got == nil || e["tool"] != tc.tool {
				t.Fatalf("%v", e)
			}
			for key, want := range tc.want {
				if got[key] != want {
					t.Errorf("%s: %.300v, want %v in %.600v", key, got[key], want, e)
				}
			}
			if tc.after != nil {
				tc.after(t, got)
			}
		})
	}
	t.Run("exec for too long", func(t *testing.T) {
		var got map[string]any
		// Once it begins within its time, on however slow a computer.
		for seconds := 2; seconds < 200 && (got == nil || got["stdout"] == ""); seconds *= 4 {
			got, _ = call(t, "sandbox_exec", fmt.Sprintf(`{"command":"echo begun; sleep 1000","timeout":%d}`, seconds))["result"].(map[string]any)
		}
		if got["stdout"] != "begun\n" || got["timed_out"] != true || got["exit_code"] != 143.0 {
			t.Error(got)
		}
	})
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=false")
	if code, _, stderr := sandbox(t, "tool", "call", "alice", "sandbox_exec", "command=true"); code != fault.ExitRejected || !strings.Contains(stderr, "autonomousExec.enabled") {
		t.Errorf("behind a gate: %d, %s", code, stderr)
	}
	if code, _, _ := sandbox(t, "tool", "call", "alice", "no_such_tool"); code != fault.ExitToolNotFound {
		t.Errorf("no such tool: %d", code)
	}
}

// maxShown is more than a model is shown of a command.
const maxShown = 51_000

// A person reads what a tool that failed has written, and cannot take it for what
// this program says.
func TestFailedToolIsShown(t *testing.T) {
	var out, stderr strings.Builder
	err := printEnvelope(console{nil, &out, &stderr}, "git_log", `{"ok":false,"kind":"execution_error","message":"it failed with exit code 2: stderr says why","stdout":"one\n","stderr":"no\u001b[2J such\nfile"}`, false)
	if fault.KindOf(err) != fault.Execution || out.String() != "" || stderr.String() != "  | one\n  | no·[2J such\n  | file\n" {
		t.Errorf("%v, %q, %q", err, out.String(), stderr.String())
	}
}
