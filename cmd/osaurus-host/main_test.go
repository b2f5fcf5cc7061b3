package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// asProgram makes the test binary run as osaurus-host.
const asProgram = "OSAURUS_HOST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

const agent = "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"

// room is the program's environment in a room.
type room struct {
	*bridgetest.Bridge
	env map[string]string
}

func newRoom(t *testing.T) *room {
	r := &room{Bridge: bridgetest.New(t)}
	token := r.Tokens.Mint(bridge.Holder{Agent: agent, Name: "alice", User: "agent-alice", UID: 2001})
	file := filepath.Join(t.TempDir(), "agent-alice.token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = map[string]string{envSocket: r.Listen(t, 2001), envTokenFile: file, envPlugin: "rss"}
	return r
}

// do runs the program.
func (r *room) do(t *testing.T, in string, words ...string) (code int, out, errors string) {
	t.Helper()
	file := func(text string) *os.File {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		_, err = f.WriteString(text)
		if _, seek := f.Seek(0, io.SeekStart); err != nil || seek != nil {
			t.Fatal(err, seek)
		}
		return f
	}
	s := system{file(in), file(""), file(""), func(key string) string { return r.env[key] }}
	code = run(t.Context(), s, words)
	read := func(f *os.File) string {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return code, read(s.out), read(s.errors)
}

const hostile = `a "quoted" \ 'text' $(with) <&> é 日本`

// Every command passes on text that breaks careless quoting.
func TestCommands(t *testing.T) {
	r := newRoom(t)
	r.SetSecret("alice", "rss", "KEY", hostile)
	recipe := filepath.Join(t.TempDir(), "recipe.json")
	if err := os.WriteFile(recipe, []byte(`{"name":"from-file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	asValue := func(text string) string {
		b, _ := json.Marshal(text)
		return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
	}
	created := func(name string) string {
		return `{"status":"installed","plugin_id":"` + name + `","plugin_name":"` + name + `","tools":[]}` + "\n"
	}
	fact := `{"results":[{"content":` + asValue(hostile) + `,"salience":0.7,"created_at":"2023-11-14T22:13:20Z"}]}` + "\n"
	for _, tc := range []struct {
		in    string
		words []string
		out   string
		told  string
	}{
		{"", []string{"secrets", "get", "KEY"}, hostile + "\n", ""},
		{"", []string{"secrets", "get", "KEY", "--json"}, `{"value":` + asValue(hostile) + "}\n", ""},
		{"", []string{"config", "set", "k", hostile}, "", ""},
		{"", []string{"config", "get", "k"}, hostile + "\n", ""},
		{"", []string{"config", "get", "--json", "k"}, `{"value":` + asValue(hostile) + "}\n", ""},
		{"two\nlines\n", []string{"config", "set", "k", "-"}, "", ""},
		{"", []string{"config", "get", "k"}, "two\nlines\n", ""},
		{"", []string{"config", "set", "k", "-5", "--json"}, "{}\n", ""},
		{"", []string{"config", "get", "k"}, "-5\n", ""},
		{"", []string{"config", "set", "k", "--", "--json"}, "", ""},
		{"", []string{"config", "get", "k"}, "--json\n", ""},
		{"", []string{"inference", "chat", "-m", hostile}, hostile + "\n", ""},
		{"", []string{"inference", "chat", "--message=" + hostile, "--stream"}, hostile + "\n", ""},
		{hostile + "\n", []string{"inference", "chat", "--system", "be brief", "--json"}, `{"content":` + asValue(hostile) + "}\n", ""},
		{hostile, []string{"inference", "chat", "-m", "-", "--model", "echo"}, hostile + "\n", ""},
		{"", []string{"agent", "dispatch", agent, hostile}, `{"task_id":"3B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"}` + "\n", "alice dispatch " + hostile + " "},
		{"from in\n", []string{"agent", "dispatch", agent, "-", "--session-key", "k"}, `{"task_id":"3B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"}` + "\n", "alice dispatch from in k"},
		{"", []string{"agent", "memory", "store", hostile}, "{}\n", ""},
		{"", []string{"agent", "memory", "query", "quoted"}, fact, ""},
		{"", []string{"agent", "memory", "query", "nothing like it"}, `{"results":[]}` + "\n", ""},
		{"", []string{"events", "emit", "rss.new"}, "", "alice emit rss.new {}"},
		{"", []string{"events", "emit", "rss.new", `"` + "text" + `"`}, "", `alice emit rss.new "text"`},
		{`{"a": [1]}`, []string{"events", "emit", "rss.new", "-"}, "", `alice emit rss.new {"a":[1]}`},
		{`{"name":"from-in"}`, []string{"plugin", "create"}, created("from-in"), "alice create from-in"},
		{"", []string{"plugin", "create", recipe}, created("from-file"), "alice create from-file"},
		{"", []string{"log", "warn", hostile}, "", "alice log warn " + hostile},
		{"", []string{"log", hostile}, "", "alice log info " + hostile},
		{"", []string{"log", "error"}, "", "alice log info error"},
		{"", []string{"log", "several", "words"}, "", "alice log info several words"},
		{"piped\n", []string{"log", "debug", "-"}, "", "alice log debug piped"},
	} {
		before := len(r.Told())
		code, out, errors := r.do(t, tc.in, tc.words...)
		told := strings.Join(r.Told()[before:], "|")
		if code != 0 || errors != "" || out != tc.out || told != tc.told {
			t.Errorf("%q: code %d, said %q and %q, told %q; want %q, told %q", tc.words, code, out, errors, told, tc.out, tc.told)
		}
	}
}

// Every failure has an exit code, a reason and advice, also as JSON.
func TestFailures(t *testing.T) {
	r := newRoom(t)
	for _, tc := range []struct {
		words []string
		code  int
		says  string
	}{
		{nil, fault.ExitInvalidArgs, "osaurus-host gives"},
		{[]string{"frobnicate"}, fault.ExitInvalidArgs, "no such command: frobnicate"},
		{[]string{"agent", "memory"}, fault.ExitInvalidArgs, "agent memory query, agent memory store"},
		{[]string{"config", "get"}, fault.ExitInvalidArgs, "takes KEY"},
		{[]string{"config", "get", "a", "b"}, fault.ExitInvalidArgs, "takes KEY"},
		{[]string{"config", "get", "k", "--jsn"}, fault.ExitInvalidArgs, "no flag --jsn"},
		{[]string{"config", "get", "k", "--json=yes"}, fault.ExitInvalidArgs, "takes no value"},
		{[]string{"inference", "chat", "--model"}, fault.ExitInvalidArgs, "needs a value"},
		{[]string{"inference", "chat"}, fault.ExitInvalidArgs, "nothing to ask"},
		{[]string{"inference", "chat", "-m", "x", "--model", "status-429"}, fault.ExitRejected, "limit"},
		{[]string{"inference", "chat", "-m", "x", "--model", "status-504", "--stream"}, fault.ExitTimeout, "so it is"},
		{[]string{"inference", "chat", "-m", "x", "--model", "status-500"}, fault.ExitExecution, "so it is"},
		{[]string{"events", "emit", "t", "{"}, fault.ExitInvalidArgs, "not JSON"},
		{[]string{"plugin", "create"}, fault.ExitInvalidArgs, "not JSON"},
		{[]string{"plugin", "create", "/nowhere/recipe.json"}, fault.ExitNotFound, "/nowhere/recipe.json"},
		{[]string{"secrets", "get", "ABSENT"}, fault.ExitNotFound, "Set it first."},
		{[]string{"agent", "dispatch", "1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", "x"}, fault.ExitRejected, "own agent"},
	} {
		code, out, errors := r.do(t, "", tc.words...)
		if code != tc.code || out != "" || !strings.Contains(errors, tc.says) {
			t.Errorf("%q: code %d, said %q and %q; want %d and %q", tc.words, code, out, errors, tc.code, tc.says)
		}
		if len(tc.words) < 3 || strings.Contains(errors, "--j") || strings.Contains(errors, "needs a value") {
			continue
		}
		code, out, errors = r.do(t, "", append(tc.words, "--json")...)
		var f wire.Failure
		if err := json.Unmarshal([]byte(errors), &f); err != nil || code != tc.code || out != "" || f.Kind.ExitCode() != tc.code || f.Error == "" {
			t.Errorf("%q as JSON: code %d, said %q and %q", tc.words, code, out, errors)
		}
	}
}

func TestHelp(t *testing.T) {
	r := newRoom(t)
	code, out, _ := r.do(t, "", "--help")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	for _, c := range commands() {
		if !strings.Contains(out, c.name) {
			t.Errorf("help does not know %s", c.name)
		}
		code, out, _ := r.do(t, "", append(strings.Fields(c.name), "--help")...)
		if code != 0 || !strings.Contains(out, "Example:\n  ") || !strings.Contains(out, "osaurus-host "+c.name) || strings.Count(out, "\n") < 4 {
			t.Errorf("help for %s, code %d: %q", c.name, code, out)
		}
	}
	if code, out, _ := r.do(t, "", "--version"); code != 0 || !strings.HasPrefix(out, "osaurus-host ") {
		t.Errorf("version: code %d, %q", code, out)
	}
}

// Errors tell a missing token from an empty one.
func TestIdentity(t *testing.T) {
	r := newRoom(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{empty: "it is empty", empty + "x": "run this in an agent's sandbox", t.TempDir(): "is a directory"} {
		r.env[envTokenFile] = file
		if code, _, errors := r.do(t, "", "config", "get", "k"); code != fault.ExitUnavailable || !strings.Contains(errors, says) {
			t.Errorf("with the token %s: code %d, %q", file, code, errors)
		}
	}
	dir := t.TempDir()
	alice := filepath.Join(dir, "agent-alice.token")
	if file, err := tokenFile(dir, "agent-alice"); err != nil || file != alice {
		t.Errorf("alice's token is %q, %v", file, err)
	}
	if file, err := tokenFile(dir, "root"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("root's token without an agent's is %q, %v", file, err)
	}
	if err := os.WriteFile(alice, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := tokenFile(dir, "root"); err != nil || file != alice {
		t.Errorf("root's token is %q, %v", file, err)
	}
}

// Without OSAURUS_PLUGIN the folder's name is the plugin.
func TestPlugin(t *testing.T) {
	r := newRoom(t)
	delete(r.env, envPlugin)
	r.SetSecret("alice", "weather", "KEY", "sunny")
	top := t.TempDir()
	for name, says := range map[string]string{"Weather": "sunny", "weather": "sunny", "rss": "Set it first", "two words": wire.HeaderPlugin, "new\nline": wire.HeaderPlugin} {
		dir := filepath.Join(top, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		if _, out, errors := r.do(t, "", "secrets", "get", "KEY"); !strings.Contains(out+errors, says) {
			t.Errorf("in %q: %q, %q", name, out, errors)
		}
	}
}

// A terminal gets the answer in parts, and a pipe at once.
func TestStreamsToWhoWatches(t *testing.T) {
	r := newRoom(t)
	watched, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	s := system{watched, watched, watched, func(key string) string { return r.env[key] }}
	if code := run(t.Context(), s, []string{"inference", "chat", "-m", "hello"}); code != 0 {
		t.Errorf("code %d", code)
	}
	if code, _, errors := r.do(t, "", "inference", "chat", "-m", "hello"); code != 0 {
		t.Errorf("code %d, %s", code, errors)
	}
	var streamed []bool
	for _, q := range r.Endpoint.Asked() {
		streamed = append(streamed, q.Stream)
	}
	if !slices.Equal(streamed, []bool{true, false}) {
		t.Errorf("streamed: %v", streamed)
	}
}

// Ctrl-C during an answer stops the model.
func TestInterrupted(t *testing.T) {
	r := newRoom(t)
	cmd := exec.Command(os.Args[0], "inference", "chat", "-m", "on and on", "--stream", "--model", inferencetest.Endless)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	for key, value := range r.env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("on and on"))
	if _, err := io.ReadFull(out, first); err != nil || string(first) != "on and on" {
		t.Errorf("it begins with %q, %v", first, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", err)
	}
	timetest.Eventually(t, "the model ends", func() bool { return r.Endpoint.Left.Load() > 0 })
}

// The program imports nothing that slows its start.
func TestStartsFast(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "osaurus-sandbox/bridge/client") {
		t.Fatalf("it depends on %q", deps)
	}
	for _, slow := range []string{"regexp", "osaurus-sandbox/config"} {
		if slices.Contains(deps, slow) {
			t.Errorf("it depends on %s", slow)
		}
	}
}
