package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// TestRoutes sends the requests of existing shims and expects the answers that they know.
func TestRoutes(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
		asked              string // of the service
	}{
		{"GET", "/api/secrets/KEY", "", 200, `{"value":"s3cr3t <&> \"of\" alice"}`, "secret KEY"},
		{"GET", "/api/secrets/NONE", "", 404, `{"error":"read secret NONE","kind":"not_found"}`, "secret NONE"},
		{"POST", "/api/config/last_sync", `{"value":"a \"b\"\n"}`, 200, `{}`, "config last_sync=a \"b\"\n"},
		{"GET", "/api/config/last_sync", "", 200, `{"value":"a \"b\"\n"}`, "config last_sync"},
		{"GET", "/api/config/nothing", "", 404, `{"error":"read config nothing","kind":"not_found"}`, "config nothing"},
		{"POST", "/api/config/empty", `{"value":""}`, 200, `{}`, "config empty="},
		{"POST", "/api/inference/chat", `{"messages":[{"role":"user","content":"hi"}]}`, 200, `{"content":"hello, you"}`, "chat  [{user hi}]"},
		{"POST", "/api/inference/chat", `{"model":"m","messages":[{"role":"user"},{"role":1,"content":"a"},7,{"role":"user","content":"hi","x":1}]}`, 200, `{"content":"hello, you"}`, "chat m [{user hi}]"},
		{"POST", "/api/agent/dispatch", `{"task":"go"}`, 200, `{"task_id":"6f1d3a52-6a2e-4a3e-9d5c-6f6b8a0e8e11"}`, "task go "},
		{"POST", "/api/agent/dispatch", `{"task":"go","agent_id":"0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e","external_session_key":"k"}`, 200, `{"task_id":"6f1d3a52-6a2e-4a3e-9d5c-6f6b8a0e8e11"}`, "task go k"},
		{"POST", "/api/agent/memory/query", `{"query":"tea"}`, 200, `{"results":[{"content":"tea, no milk","salience":0.7,"created_at":"2026-01-02T03:04:05Z"}]}`, "query tea"},
		{"POST", "/api/agent/memory/query", `{"query":"nothing"}`, 200, `{"results":[]}`, "query nothing"},
		{"POST", "/api/agent/memory/store", `{"content":"tea"}`, 200, `{}`, "store tea"},
		{"POST", "/api/events/emit", `{"type":"rss.new","payload":{"a": [1, "x"]}}`, 200, `{}`, `emit rss.new {"a": [1, "x"]}`},
		{"POST", "/api/events/emit", `{"type":"rss.new"}`, 200, `{}`, "emit rss.new "},
		{"POST", "/api/events/emit", `{"type":"rss.new","payload":null}`, 200, `{}`, "emit rss.new null"},
		{"POST", "/api/plugin/create", `{"name":"Feeds"}`, 200, `{"status":"installed","plugin_id":"feeds","plugin_name":"Feeds","tools":[]}`, `create {"name":"Feeds"}`},
		{"POST", "/api/log", `{"level":"warn","message":"hm"}`, 200, `{}`, "log warn hm"},
		{"POST", "/api/log", `{"level":"INFO","message":""}`, 200, `{}`, "log info "},
		{"POST", "/api/log", `{"message":"hm"}`, 200, `{}`, "log info hm"},
		{"POST", "/api/sandbox-tool/sandbox_exec", `{"arguments":{"a":1}}`, 200, `{"ok":false,"kind":"timeout"}`, `script s1 tool sandbox_exec {"a":1}`},
		{"POST", "/api/sandbox-tool/sandbox_exec", `{"a":1}`, 200, `{"ok":false,"kind":"timeout"}`, `script s1 tool sandbox_exec {"a":1}`},
		{"POST", "/api/sandbox-tool/sandbox_exec", ``, 200, `{"ok":false,"kind":"timeout"}`, `script s1 tool sandbox_exec {}`},
		{"GET", "/api/secrets/KEY?x=/api/log", "", 200, `{"value":"s3cr3t <&> \"of\" alice"}`, "secret KEY"},
		{"GET", "//api//secrets/%4bEY/", "", 200, `{"value":"s3cr3t <&> \"of\" alice"}`, "secret KEY"},
	} {
		r := w.as(alice, c.method, c.path, c.body)
		r.headers["X-Osaurus-Script-Id"] = "s1"
		r.headers["X-Osaurus-User"] = "agent-bob" // must be ignored
		got := w.ask(r)
		if got.status != c.status || got.body != c.answer {
			t.Errorf("%s %s %s: %v, want %d %s", c.method, c.path, c.body, got, c.status, c.answer)
		}
		if kind, length := got.header.Get("Content-Type"), got.header.Get("Content-Length"); kind != "application/json" || length != fmt.Sprint(len(got.body)) {
			t.Errorf("%s %s: %s of %s bytes", c.method, c.path, kind, length)
		}
		if asked := w.services.last(); asked != "agent-alice/rss "+c.asked {
			t.Errorf("%s %s %s asks %q, want %q", c.method, c.path, c.body, asked, c.asked)
		}
	}
}

// TestWrongRequests checks that malformed requests reach no service.
func TestWrongRequests(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/", "", 404, "find route /"},
		{"GET", "/api", "", 404, "find route /api"},
		{"GET", "/api/nothing", "", 404, "find route"},
		{"GET", "/api/secret/KEY", "", 404, "find route"},
		{"GET", "/secrets/KEY", "", 404, "find route"},
		{"POST", "/api/agent/nothing", "{}", 404, "find route"},
		{"POST", "/api/agent/memory/forget", "{}", 404, "find route"},
		{"POST", "/api/log/more", "{}", 404, "find route"},
		{"GET", "/api/secrets/KEY/more", "", 404, "find route"},
		{"GET", "/api/x/../secrets/KEY", "", 404, "find route"},
		{"GET", "/API/secrets/KEY", "", 404, "find route"},
		{"GET", "/api%2Fsecrets/KEY", "", 404, "find route"},
		{"GET", "/api/secrets", "", 400, "a name is missing"},
		{"GET", "/api/secrets/", "", 400, "a name is missing"},
		{"GET", "/api/config/", "", 400, "a name is missing"},
		{"POST", "/api/sandbox-tool", "", 400, "a name is missing"},
		{"POST", "/api/inference/embed", "{}", 400, "it can only chat"},
		{"POST", "/api/inference", "{}", 400, "it can only chat"},
		{"GET", "/api/secrets/a-b", "", 400, "read secret name"},
		{"GET", "/api/secrets/%252E%252E", "", 400, "read secret name"},
		{"GET", "/api/config/a%20b", "", 400, "read config key"},
		{"GET", "/api/config/" + long, "", 400, "read config key"},
		{"POST", "/api/config/k", "", 400, "not a JSON object"},
		{"POST", "/api/config/k", "null", 400, "not a JSON object"},
		{"POST", "/api/config/k", "[1]", 400, "not a JSON object"},
		{"POST", "/api/config/k", `{"value":"a"} {}`, 400, "not a JSON object"},
		{"POST", "/api/config/k", "value=a&b=c", 400, "not a JSON object"},
		{"POST", "/api/config/k", `{"value":"` + "\xff" + `"}`, 400, "not UTF-8"},
		{"POST", "/api/config/k", `{}`, 400, "value: it is missing"},
		{"POST", "/api/config/k", `{"value":null}`, 400, "value: it is missing"},
		{"POST", "/api/config/k", `{"VALUE":"a"}`, 400, "value: it is missing"},
		{"POST", "/api/config/k", `{"value":1}`, 400, "cannot unmarshal number"},
		{"POST", "/api/inference/chat", `{}`, 400, "messages: it is missing"},
		{"POST", "/api/inference/chat", `{"messages":[]}`, 400, "none has a role"},
		{"POST", "/api/inference/chat", `{"messages":[{"role":"user"}]}`, 400, "none has a role"},
		{"POST", "/api/inference/chat", `{"messages":"hi"}`, 400, "cannot unmarshal"},
		{"POST", "/api/agent/dispatch", `{}`, 400, "task: it is missing"},
		{"POST", "/api/agent/dispatch", `{"task":"a","agent_id":"1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"}`, 403, "it is for another agent"},
		{"POST", "/api/agent/dispatch", `{"task":"a","agent_id":"bob"}`, 403, "it is for another agent"},
		{"POST", "/api/agent/memory/query", `{}`, 400, "query: it is missing"},
		{"POST", "/api/events/emit", `{}`, 400, "type: it is missing"},
		{"POST", "/api/events/emit", `{"type":"a b"}`, 400, "read event type"},
		{"POST", "/api/plugin/create", `"x"`, 400, "not a JSON object"},
		{"POST", "/api/log", `{"level":"loud","message":"a"}`, 400, "read level loud"},
		{"POST", "/api/log", `{"level":"info"}`, 400, "message: it is missing"},
		{"POST", "/api/sandbox-tool/sandbox_exec", `7`, 400, "not a JSON object"},
		{"POST", "/api/sandbox-tool/a%2Fb", `{}`, 400, "not a tool's name"},
	} {
		r := w.as(alice, c.method, c.path, c.body)
		r.headers["X-Osaurus-Script-Id"] = "s1"
		got := w.ask(r)
		var f struct{ Error, Kind, Advice string }
		if err := json.Unmarshal([]byte(got.body), &f); err != nil {
			t.Fatal(err)
		}
		if got.status != c.status || !strings.Contains(f.Error, c.says) || f.Kind == "" {
			t.Errorf("%s %s %s: %v, want %d …%s…", c.method, c.path, c.body, got, c.status, c.says)
		}
	}
	if n := w.services.count(); n > 0 {
		t.Errorf("services were asked for %d things, the last for %s", n, w.services.last())
	}
}

// TestMethods checks the header Allow.
func TestMethods(t *testing.T) {
	w := newWorld(t)
	for path, allow := range map[string]string{
		"/api/secrets/KEY": "GET", "/api/config/key": "GET, POST", "/api/inference/chat": "POST", "/api/agent/dispatch": "POST",
		"/api/agent/memory/query": "POST", "/api/agent/memory/store": "POST", "/api/events/emit": "POST", "/api/plugin/create": "POST",
		"/api/log": "POST", "/api/sandbox-tool/sandbox_exec": "POST",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "X"} {
			if strings.Contains(allow, method) {
				continue
			}
			if got := w.ask(w.as(alice, method, path, "")); got.status != 405 || got.header.Get("Allow") != allow {
				t.Errorf("%s %s: %v, Allow: %s", method, path, got, got.header.Get("Allow"))
			}
		}
	}
	if got := w.raw(alice.UID, "HEAD /api/secrets/KEY HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+string(w.alice)+"\r\n\r\n", 1); len(got) != 1 || got[0].status != 405 {
		t.Errorf("HEAD: %v", got)
	}
	if n := w.services.count(); n > 0 {
		t.Errorf("services were asked for %d things", n)
	}
}

// TestPlugin checks the plugin's header. An invalid id is refused where it is needed and ignored
// elsewhere, because existing shims send the name of their folder.
func TestPlugin(t *testing.T) {
	w := newWorld(t)
	for header, plugin := range map[string]string{"rss": "rss", " RSS ": "rss", "Feed_2.0": "feed_2.0", "": "!", "..": "!", "a/b": "!", "../rss": "!", "a b": "!", strings.Repeat("x", 65): "!"} {
		for _, path := range []string{"/api/secrets/KEY", "/api/config/key"} {
			r := w.as(alice, "GET", path, "")
			r.headers["X-Osaurus-Plugin"] = header
			before := w.services.count()
			got := w.ask(r)
			if plugin == "!" && (got.status != 400 || w.services.count() != before) || plugin != "!" && !strings.HasPrefix(w.services.last(), "agent-alice/"+plugin+" ") {
				t.Errorf("plugin %q at %s: %v, %s", header, path, got, w.services.last())
			}
		}
		r := w.as(alice, "POST", "/api/log", `{"message":"a"}`)
		r.headers["X-Osaurus-Plugin"] = header
		if got := w.ask(r); got.status != 200 || !strings.HasPrefix(w.services.last(), "agent-alice/"+strings.Trim(plugin, "!")+" ") {
			t.Errorf("plugin %q in the log: %v, %s", header, got, w.services.last())
		}
	}
	r := w.as(alice, "GET", "/api/secrets/KEY", "")
	r.headers = nil
	if got := w.ask(r); got.status != 400 {
		t.Errorf("without a plugin: %v", got)
	}
	r.headers = map[string]string{"X-Osaurus-Plugin": "a\r\nX-Osaurus-Plugin: b"}
	if got := w.ask(r); got.status != 400 {
		t.Errorf("with two plugins: %v", got)
	}
}

// TestFailures checks that an error's kind gives the status, and that details of the host stay in
// the log.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	for kind, status := range map[fault.Kind]int{
		fault.InvalidArgs: 400, fault.Rejected: 403, fault.UserDenied: 403, fault.Timeout: 504, fault.Execution: 500,
		fault.Unavailable: 503, fault.NotFound: 404, fault.ToolNotFound: 404,
	} {
		w.services.fails(fault.Newf(kind, "do", "it", "no \"way\"").Advise("Try\nelse."))
		want := fmt.Sprintf(`{"error":"do it: no \"way\"","kind":%q,"advice":"Try\nelse."}`, kind)
		if got := w.ask(w.as(alice, "GET", "/api/config/key", "")); got.status != status || got.body != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	w.services.fails(fault.New(fault.Rejected, "chat", "", &bridge.Limited{Why: "1000 tokens a day", After: 90e9}))
	if got := w.ask(w.as(alice, "GET", "/api/config/key", "")); got.status != 429 || got.header.Get("Retry-After") != "90" || !strings.Contains(got.body, `"rejected"`) {
		t.Errorf("limited: %v", got)
	}
	w.services.fails(fmt.Errorf("open /home/person/.osaurus/file: %w", context.DeadlineExceeded))
	if got := w.ask(w.as(alice, "GET", "/api/config/key", "")); got.status != 504 || got.body != `{"error":"it took too long on the host","kind":"timeout"}` {
		t.Errorf("late: %v", got)
	}
	w.services.fails(errors.New("open /home/person/.osaurus: no"))
	if got := w.ask(w.as(alice, "GET", "/api/config/key", "")); got.status != 500 || got.body != `{"error":"it failed on the host","kind":"execution_error"}` {
		t.Errorf("plain error: %v", got)
	}
	if !strings.Contains(w.log.String(), "/home/person/.osaurus") {
		t.Errorf("the log has nothing of it: %s", w.log)
	}
	w.services.fails(fault.New(fault.Unavailable, "store", "/home/person/db", hostly{errors.New("no room")}).Advise("Make room in /home/person."))
	if got := w.ask(w.as(alice, "GET", "/api/config/key", "")); got.status != 503 || got.body != `{"error":"it failed on the host","kind":"unavailable"}` {
		t.Errorf("what is wrong with the host: %v", got)
	}
	if !strings.Contains(w.log.String(), "no room") {
		t.Errorf("the log has nothing of it: %s", w.log)
	}
	w.services.fails(fault.New(fault.Execution, strings.Repeat("long", 1<<20), "", nil))
	if got := w.ask(w.as(alice, "GET", "/api/config/key", "")); got.status != 500 || len(got.body) > 8<<10 {
		t.Errorf("a long error: %d, %d bytes", got.status, len(got.body))
	}
}

// hostly is a cause that programs must not see.
type hostly struct{ error }

func (hostly) HostOnly() {}

// oneRoute is a valid request for a route.
type oneRoute struct{ method, path, body string }

func (c oneRoute) of(w *world, h bridge.Holder) request {
	r := w.as(h, c.method, c.path, c.body)
	r.headers["X-Osaurus-Script-Id"] = "s1"
	return r
}

var everyRoute = []oneRoute{
	{"GET", "/api/secrets/KEY", ""},
	{"GET", "/api/config/key", ""},
	{"POST", "/api/config/key", `{"value":"v"}`},
	{"POST", "/api/inference/chat", `{"messages":[{"role":"user","content":"hi"}]}`},
	{"POST", "/api/agent/dispatch", `{"task":"go"}`},
	{"POST", "/api/agent/memory/query", `{"query":"tea"}`},
	{"POST", "/api/agent/memory/store", `{"content":"tea"}`},
	{"POST", "/api/events/emit", `{"type":"rss.new"}`},
	{"POST", "/api/plugin/create", `{"name":"Feeds"}`},
	{"POST", "/api/log", `{"level":"info","message":"hm"}`},
	{"POST", "/api/sandbox-tool/sandbox_exec", `{}`},
}

// TestAudit checks that tasks, plugins and tool calls are recorded, refused or not.
func TestAudit(t *testing.T) {
	w := newWorld(t)
	for _, c := range everyRoute {
		w.ask(c.of(w, alice))
	}
	w.ask(w.as(bob, "POST", "/api/agent/dispatch", `{"task":"go","agent_id":"alice's"}`))
	w.services.fails(fault.New(fault.Rejected, "create", "", nil))
	w.ask(w.as(bob, "POST", "/api/plugin/create", `{"name":"Bad"}`))
	want := strings.Join([]string{
		"task.dispatch alice/rss 6f1d3a52-6a2e-4a3e-9d5c-6f6b8a0e8e11 ok",
		"plugin.create alice/rss feeds ok",
		"tool.call alice/rss sandbox_exec timeout",
		"task.dispatch bob/rss alice's rejected",
		`plugin.create bob/rss "Bad" rejected`,
	}, "\n")
	if got := w.audit.all(); got != want {
		t.Errorf("the audit is\n%s\nwant\n%s", got, want)
	}
}
