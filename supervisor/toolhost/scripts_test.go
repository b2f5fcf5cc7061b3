package toolhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// rig runs sandbox_execute_code with a real Python that calls back over a real bridge. The room is
// this host.
type rig struct {
	*testing.T
	tools   *tools.Registry
	alice   tools.Agent
	running atomic.Int32 // commands
	socket  string       // alice's
	token   bridge.Token
}

func newRig(t *testing.T, env ...string) *rig {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("*** NOT TRIED: there is no python3")
	}
	dir, err := os.MkdirTemp("", "") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	settings := config.AgentDefaults()
	settings.AutonomousExec = true
	r := &rig{T: t, alice: tools.Agent{ID: "A", Name: "alice", User: "agent-alice", Home: t.TempDir(), Settings: settings}}
	tokens := bridge.NewTokens()
	server := bridge.NewServer(bridge.Options{Tokens: tokens, Audit: silent{}, Log: slog.New(slog.DiscardHandler)})
	var serving sync.WaitGroup
	for uid, who := range []bridge.Holder{{Agent: "A", Name: "alice", User: "agent-alice", UID: 0}, {Agent: "B", Name: "bob", User: "agent-bob", UID: 1}} {
		token, socket := tokens.Mint(who), filepath.Join(dir, string(who.Name))
		if uid == 0 {
			r.token, r.socket = token, socket
		}
		if err := os.WriteFile(socket+".token", []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() {
			if err := server.Serve(from{l, uint32(uid)}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	rooms := here{env: append([]string{"OSAURUS_BRIDGE_SOCKET=" + r.socket, "OSAURUS_TOKEN_FILE=" + r.socket + ".token", "BOB=" + filepath.Join(dir, "bob")}, env...), running: &r.running}
	r.tools = tools.NewRegistry(slog.New(slog.DiscardHandler), tools.Sandbox(tools.Host{Rooms: func(tools.Agent) engine.Room { return rooms }})...)
	server.Services.Scripts = toolhost.Scripts(r.tools)
	return r
}

type silent struct{}

func (silent) Record(context.Context, bridge.Caller, bridge.Action, string, error) {}

// result is the answer of sandbox_execute_code.
type result struct {
	OK     bool
	Kind   string
	Result struct {
		Stdout    string
		Stderr    string
		ExitCode  int `json:"exit_code"`
		ToolCalls int `json:"tool_calls"`
		Cwd       string
		TimedOut  bool `json:"timed_out"`
		Truncated bool
	}
	Message string
}

// run runs code.
func (r *rig) run(call tools.Call, code string, more map[string]any) (out result) {
	r.Helper()
	arguments := map[string]any{"code": "from osaurus_tools import *\n" + code}
	for key, value := range more {
		arguments[key] = value
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		r.Fatal(err)
	}
	if err := json.Unmarshal([]byte(r.tools.Call(r.Context(), call, "sandbox_execute_code", text).Text()), &out); err != nil {
		r.Fatal(err)
	}
	if n := r.running.Load(); n != 0 {
		r.Errorf("%d commands still run", n)
	}
	return out
}

func TestCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, text := range map[string]string{"osaurus_tools.py": "raise SystemExit('planted')", "sub/own.py": "def f(): return 'its own'"} {
		path := filepath.Join(r.alice.Home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const refused = `
def refused(call, *args, **kw):
    try:
        return call(*args, **kw)
    except SandboxToolError as e:
        return e.kind, e.field, e.retryable, e.envelope["tool"], e.message, str(e) == "%s: %s (%s)" % (e.tool, e.message, e.kind)
`
	for _, tc := range []struct {
		name, code string
		more       map[string]any
		stdout     string // all, or where it ends in … the beginning
		stderr     string // a part
		exit       int
		calls      int
	}{
		{name: "a result", code: `print(terminal("echo hi; exit 3"))`, stdout: "{'stdout': 'hi\\n', 'stderr': '', 'exit_code': 3, 'cwd': '" + r.alice.Home + "'}\n", calls: 1},
		{name: "any text", code: `print(terminal("printf %s \"$1\" <<< x; echo 'ä☃\u2028\\'")["stdout"])`, stdout: "ä☃\u2028\\\n\n", calls: 1},
		{name: "a warning", code: `print(terminal("true | true")["exit_code"])`, stdout: "0\n", stderr: "warning: it wrote nothing", calls: 1},
		{name: "50 calls", code: "for i in range(50): terminal('true')", calls: 50},
		{name: "51 calls", code: refused + "for i in range(51): last = refused(terminal, 'true')\nprint(last)", calls: 50,
			stdout: "('rejected', None, False, 'sandbox_exec', 'call tool: the script has made its 50 tool calls Do more in …"},
		{name: "a wrong argument", code: refused + "print(refused(terminal, ''))", calls: 1, stdout: "('invalid_args', 'command', True, 'sandbox_exec', …"},
		{name: "itself", code: refused + "print(refused(call, 'sandbox_execute_code', code='1'))", stdout: "('rejected', None, False, 'sandbox_execute_code', 'call tool \"sandbox_execute_code\": a script may not call it It may call: sandbox_read_file …"},
		{name: "a secret", code: refused + "print(refused(call, 'sandbox_secret_set', key='K', description='', instructions=''))", stdout: "('rejected', None, False, 'sandbox_secret_set', …"},
		{name: "nothing", code: refused + "print(refused(call, 'nothing'))", stdout: "('rejected', …"},
		{name: "no name", code: refused + "print(refused(call, 'a%2Fb'))", stdout: "('invalid_args', …"},
		{name: "another script's id", code: refused + "import os; os.environ['OSAURUS_SCRIPT_ID'] = 'S1'; print(refused(terminal, 'true'))", stdout: "('rejected', None, False, 'sandbox_exec', 'call tool: no script of this agent runs under this id …"},
		{name: "as another agent", code: refused + "import os; os.environ.update(OSAURUS_BRIDGE_SOCKET=os.environ['BOB'], OSAURUS_TOKEN_FILE=os.environ['BOB'] + '.token'); print(refused(terminal, 'true'))",
			stdout: "('rejected', None, False, 'sandbox_exec', 'call tool: no script of this agent runs under this id …"},
		{name: "no bridge", code: refused + "import os; os.environ['OSAURUS_BRIDGE_SOCKET'] = 'none'; print(refused(terminal, 'true'))",
			stdout: "('unavailable', None, True, 'sandbox_exec', '[Errno 2] No such file or directory', True)\n"},
		{name: "no token", code: refused + "import os; os.environ['OSAURUS_TOKEN_FILE'] = 'none'; print(refused(terminal, 'true'))",
			stdout: "('unavailable', None, True, 'sandbox_exec', \"[Errno 2] No such file or directory: 'none'\", True)\n"},
		{name: "a bridge that breaks off", stdout: "('unavailable', None, True, 'sandbox_exec')\n('unavailable', None, True, 'sandbox_exec')\n('unavailable', None, True, 'sandbox_exec')\n", code: refused + `
import os, socket, threading
os.environ["OSAURUS_BRIDGE_SOCKET"] = "broken"
listener = socket.socket(socket.AF_UNIX)
listener.bind("broken")
listener.listen()
def serve(answer):
    taken, _ = listener.accept()
    asked = b""
    while not asked.endswith(b"}}"): asked += taken.recv(1 << 16)
    taken.sendall(answer)
    taken.close()
for answer in b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 200 OK\r\n\r\n<html>":
    server = threading.Thread(target=serve, args=[answer])
    server.start()
    print(refused(terminal, "true")[:4])
    server.join()`},
		{name: "an exception", code: "def f():\n    return 1 / 0\nf()", exit: 1, stderr: "    return 1 / 0\n"},
		{name: "a tool's", code: "terminal('')", exit: 1, calls: 1, stderr: "SandboxToolError: sandbox_exec: "},
		{name: "an exit code", code: "import sys; sys.exit(7)", exit: 7},
		{name: "no input", code: "import sys; print(repr(sys.stdin.read()))", stdout: "''\n"},
		{name: "much output", code: "for i in range(100000): print(i)", stdout: "0\n1\n2\n3…"},
		{name: "from its folder", code: "import own, os; print(own.f(), os.getcwd())", more: map[string]any{"cwd": "sub"}, stdout: "its own " + r.alice.Home + "/sub\n"},
		{name: "many at once", code: "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(10) as p: print(sum(int(r['stdout']) for r in p.map(terminal, ['echo 2'] * 20)))", stdout: "40\n", calls: 20},
		{name: "other processes", calls: 4, stdout: "8\n", code: `
import multiprocessing
def work(n): return int(terminal("echo %d" % n)["stdout"])
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as p: print(sum(p.map(work, [2] * 4)))`},
		{name: "an error over processes", calls: 1, stdout: "invalid_args\n", code: `
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as p:
        try: p.map(terminal, [""])
        except SandboxToolError as e: print(e.kind)`},
		{name: "a call that outlives it", calls: 1, code: `
import os, threading, time
threading.Thread(target=terminal, args=["touch begun; sleep 600"], daemon=True).start()
while not os.path.exists("begun"): time.sleep(0.01)
os._exit(0)`, more: map[string]any{"timeout": 120}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &rig{T: t, tools: r.tools, alice: r.alice}
			out := r.run(tools.Call{Agent: r.alice}, tc.code, tc.more)
			got := out.Result
			begin, open := strings.CutSuffix(tc.stdout, "…")
			if open && !strings.HasPrefix(got.Stdout, begin) || !open && got.Stdout != tc.stdout || !strings.Contains(got.Stderr, tc.stderr) || tc.stderr == "" && got.Stderr != "" {
				t.Errorf("it wrote\n%.2000s\nand\n%.2000s", got.Stdout, got.Stderr)
			}
			if !out.OK || got.ExitCode != tc.exit || got.ToolCalls != tc.calls || got.TimedOut || got.Truncated != (tc.name == "much output") || len(got.Stdout) > 51_000 {
				t.Errorf("%+.2000v", out)
			}
		})
	}
}

// Code that times out keeps its output.
func TestCodeForTooLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var out result
	for timeout := 5; out.Result.Stdout == "" && timeout < 300; timeout *= 4 { // Python starts slowly on a busy host
		out = r.run(tools.Call{Agent: r.alice}, "import time; print('begun'); time.sleep(600)", map[string]any{"timeout": timeout})
	}
	if got := out.Result; !got.TimedOut || got.ExitCode != 143 || got.Stdout != "begun\n" || got.Stderr != "" {
		t.Errorf("%+v", out)
	}
}

// After a script has ended, its id is refused and its files are removed.
func TestAfterCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out := r.run(tools.Call{Agent: r.alice}, "import os; print(os.environ['OSAURUS_SCRIPT_ID'], os.path.dirname(__file__))", nil)
	var id, dir string
	if _, err := fmt.Sscan(out.Result.Stdout, &id, &dir); err != nil || len(id) < 26 {
		t.Fatalf("%v in %+v", err, out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.socket)
	}}}
	q, err := http.NewRequestWithContext(t.Context(), "POST", "http://osaurus/api/sandbox-tool/sandbox_exec", strings.NewReader(`{"command":"true"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+string(r.token))
	q.Header.Set("X-Osaurus-Script-Id", id)
	a, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var failure struct{ Error string }
	if err := json.NewDecoder(a.Body).Decode(&failure); err != nil || a.StatusCode != http.StatusForbidden || !strings.Contains(failure.Error, "no script of this agent runs under this id") {
		t.Errorf("%d, %q, %v", a.StatusCode, failure.Error, err)
	}
}

// A script's calls pass the gates and count toward the limits of its own call.
func TestCodeIsGated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	off := tools.Call{Agent: r.alice}
	off.Settings.AutonomousExec = false
	if out := r.run(off, "", nil); out.OK || out.Kind != "rejected" {
		t.Errorf("behind the gate: %+v", out)
	}
	counted := tools.Call{Agent: r.alice, Turn: "t"}
	counted.Settings.MaxCommandsPerTurn = 3
	out := r.run(counted, "for i in range(3):\n    try: print(terminal('true')['exit_code'])\n    except SandboxToolError as e: print(e.kind)", nil)
	if out.Result.Stdout != "0\n0\nrejected\n" || out.Result.ToolCalls != 3 {
		t.Errorf("in a turn of three commands: %+v", out)
	}
	if out := r.run(counted, "", nil); out.Kind != "rejected" {
		t.Errorf("and one more: %+v", out)
	}
}

func TestCodeWithoutPython(t *testing.T) {
	t.Parallel()
	r := newRig(t, "PATH=/nowhere")
	if out := r.run(tools.Call{Agent: r.alice}, "", nil); out.Kind != "unavailable" || !strings.Contains(out.Message, `sandbox_install with packages ["python3"]`) {
		t.Errorf("%+v", out)
	}
}
