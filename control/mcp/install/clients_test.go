package install

import (
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

var cmd = Command{Path: `/opt/My "Apps"/osaurus-sandbox`, Args: []string{"mcp", "--agent", "a"}, Env: map[string]string{"OSAURUS_HOME": "/home/x/öl"}}

func find(t testing.TB, id string) Client {
	t.Helper()
	c, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Add writes the snippet into an empty file, and Remove takes it out.
func TestEveryClient(t *testing.T) {
	for _, c := range All() {
		added, err := c.Add(nil, cmd)
		if err != nil || string(added) != c.Snippet(cmd) || !c.Has(added) {
			t.Errorf("%s: %v\n%s", c.ID, err, added)
		}
		if again, err := c.Add(added, cmd); err != nil || string(again) != string(added) {
			t.Errorf("%s: a second time: %v\n%s", c.ID, err, again)
		}
		other, err := c.Add(added, Command{Path: "/other", Args: []string{"mcp"}})
		if err != nil || strings.Contains(string(other), "Apps") {
			t.Errorf("%s: another command: %v\n%s", c.ID, err, other)
		}
		if back, err := c.Add(other, cmd); err != nil || string(back) != string(added) {
			t.Errorf("%s: and back: %v\n%s", c.ID, err, back)
		}
		removed, err := c.Remove(added)
		if err != nil || c.Has(removed) {
			t.Errorf("%s: removed: %v\n%s", c.ID, err, removed)
		}
		if same, err := c.Remove(removed); err != nil || string(same) != string(removed) {
			t.Errorf("%s: removed twice: %v\n%s", c.ID, err, same)
		}
		if file := c.File(Places{User: "/u", Apps: "/u/apps", Config: "/u/config", Codex: "/u/codex"}); !strings.HasPrefix(file, "/u/") || c.Then == "" || c.Title == "" {
			t.Errorf("%s: %s", c.ID, file)
		}
	}
}

// files are configuration files before and after Add.
var files = []struct{ name, client, before, after string }{
	{"others", "cursor", "{\n    \"mcpServers\": {\n        \"x\": {\"command\": \"x\"}\n    }\n}\n",
		"{\n    \"mcpServers\": {\n        \"osaurus-sandbox\": {\n            \"command\": \"s\",\n            \"args\": [\n                \"mcp\"\n            ]\n        },\n        \"x\": {\"command\": \"x\"}\n    }\n}\n"},
	{"tabs and other keys", "claude-code", "{\n\t\"a\": [1, 2.50, 1e3],\n\t\"mcpServers\": {},\n\t\"z\": \"\\u00e9\"\n}",
		"{\n\t\"a\": [1, 2.50, 1e3],\n\t\"mcpServers\": {\n\t\t\"osaurus-sandbox\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"s\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t]\n\t\t}\n\t},\n\t\"z\": \"\\u00e9\"\n}"},
	{"no servers", "claude-desktop", "{\r\n  \"theme\": \"dark\" // night\r\n}\r\n",
		"{\n  \"mcpServers\": {\n    \"osaurus-sandbox\": {\n      \"command\": \"s\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }\n  },\r\n  \"theme\": \"dark\" // night\r\n}\r\n"},
	{"comments and a comma at the end", "zed", "// Mine.\n{\n  \"context_servers\": {\n    \"x\": { \"command\": \"x\" }, // the first\n    // no more\n  },\n  /* the end */\n}\n",
		"// Mine.\n{\n  \"context_servers\": {\n    \"osaurus-sandbox\": {\n      \"source\": \"custom\",\n      \"command\": \"s\",\n      \"args\": [\n        \"mcp\"\n      ],\n      \"env\": {}\n    },\n    \"x\": { \"command\": \"x\" }, // the first\n    // no more\n  },\n  /* the end */\n}\n"},
	{"comments at the beginning", "zed", "{\n  \"context_servers\": { // sorted\n    // of x\n    \"x\": {}\n  }\n}\n", ""},
	{"one line", "vscode", `{"servers":{"x":{"command":"x"}},"inputs":[]}`, ""},
	{"a list", "osaurus", "{\n  \"providers\" : [\n    {\n      \"name\" : \"x\"\n    }\n  ]\n}", ""},
	{"TOML", "codex", "model = \"m\" # mine\n\n[mcp_servers.x]\ncommand = \"x\"\n\n[tui]\na = '''\n[no header]\n'''",
		"model = \"m\" # mine\n\n[mcp_servers.x]\ncommand = \"x\"\n\n[tui]\na = '''\n[no header]\n'''\n\n[mcp_servers.osaurus-sandbox]\ncommand = \"s\"\nargs = [\"mcp\"]\nstartup_timeout_sec = 60\ntool_timeout_sec = 900\n"},
	{"YAML", "goose", "GOOSE_MODE: auto # yes\nextensions:\n    developer:\n        enabled: true\n        # kept\n\nz: |\n  text\n\n  more\n",
		"GOOSE_MODE: auto # yes\nextensions:\n    osaurus-sandbox:\n        enabled: true\n        type: \"stdio\"\n        name: \"osaurus-sandbox\"\n        cmd: \"s\"\n        args: [\"mcp\"]\n        envs: {}\n        timeout: 900\n    developer:\n        enabled: true\n        # kept\n\nz: |\n  text\n\n  more\n"},
	{"YAML without servers", "goose", "a: 1", ""},
	{"YAML with an empty key", "goose", "extensions: # none\nz: 1\n", ""},
}

// Add and Remove change only the entry.
func TestFiles(t *testing.T) {
	short := Command{Path: "s", Args: []string{"mcp"}}
	for _, tc := range files {
		c := find(t, tc.client)
		after, err := c.Add([]byte(tc.before), short)
		if err != nil || tc.after != "" && string(after) != tc.after {
			t.Errorf("%s: %v\n%s", tc.name, err, after)
			continue
		}
		back, err := c.Remove(after)
		if err != nil || c.Has(back) {
			t.Errorf("%s: removed: %v\n%s", tc.name, err, back)
		}
		if strings.Contains(tc.before, `"x"`) && !strings.HasSuffix(tc.before, "'''") && string(back) != tc.before {
			t.Errorf("%s: what is left is\n%s", tc.name, back)
		}
	}
}

// Remove works between other entries.
func TestRemoveFromTheMiddle(t *testing.T) {
	for client, want := range map[string]string{
		"cursor": "{\n  \"mcpServers\": {\n    \"a\": {},\n    // of b\n    \"b\": {}\n  }\n}\n",
		"zed":    "{\n  \"context_servers\": {\n    \"a\": {}, // of a\n  }\n}\n",
		"codex":  "[mcp_servers.a]\ncommand = \"a\"\n\n# of b\n[mcp_servers.b]\ncommand = \"b\"\n",
		"goose":  "extensions:\n  a:\n    enabled: true\n  # of b\n  b:\n    enabled: true\n",
	} {
		text := map[string]string{
			"cursor": "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"osaurus-sandbox\": {\"command\": \"x\"},\n    // of b\n    \"b\": {}\n  }\n}\n",
			"zed":    "{\n  \"context_servers\": {\n    \"a\": {}, // of a\n    \"osaurus-sandbox\": {\"command\": \"x\"}\n  }\n}\n",
			"codex":  "[mcp_servers.a]\ncommand = \"a\"\n\n[mcp_servers.osaurus-sandbox]\ncommand = \"x\"\n[mcp_servers.osaurus-sandbox.env]\nA = \"1\"\n\n# of b\n[mcp_servers.b]\ncommand = \"b\"\n",
			"goose":  "extensions:\n  a:\n    enabled: true\n  osaurus-sandbox:\n    cmd: x\n    args:\n      - mcp\n  # of b\n  b:\n    enabled: true\n",
		}[client]
		got, err := find(t, client).Remove([]byte(text))
		if client == "codex" { // the blank line before it stays
			want = strings.Replace(want, "\n\n# of b", "\n\n\n# of b", 1)
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", client, err, got)
		}
	}
}

// Broken files and those that cannot be edited are refused.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		client, text string
		kind         fault.Kind
	}{
		{"cursor", `{"mcpServers": {`, fault.InvalidArgs},
		{"cursor", `{"mcpServers": {}} {}`, fault.InvalidArgs},
		{"cursor", `{"a": 1 "b": 2}`, fault.InvalidArgs},
		{"cursor", `{a: 1}`, fault.InvalidArgs},
		{"cursor", `{"a": "\x"}`, fault.InvalidArgs},
		{"cursor", `{"a": 01}`, fault.InvalidArgs},
		{"cursor", "{} /* no end", fault.InvalidArgs},
		{"cursor", strings.Repeat("[", 1000) + strings.Repeat("]", 1000), fault.Rejected},
		{"cursor", `[]`, fault.Rejected},
		{"cursor", `{"mcpServers": []}`, fault.Rejected},
		{"cursor", `{"mcpServers": {"a": {}}, "mcpServers": {"osaurus-sandbox": {"command": "old"}}}`, fault.Rejected},
		{"cursor", `"text"`, fault.Rejected},
		{"osaurus", `{"providers": {}}`, fault.Rejected},
		{"osaurus", `{"providers": [{"name": {}}] 1}`, fault.InvalidArgs},
		{"codex", "a = ", fault.InvalidArgs},
		{"codex", "mcp_servers = 1\n", fault.Rejected},
		{"codex", "mcp_servers = { osaurus-sandbox = { command = \"x\" } }\n", fault.Rejected},
		{"codex", "[mcp_servers]\nosaurus-sandbox = { command = \"x\" }\n", fault.Rejected},
		{"codex", "a = '''\n[mcp_servers.osaurus-sandbox]\n'''\n", fault.Rejected},
		{"goose", "a: [", fault.InvalidArgs},
		{"goose", "extensions: {a: {}}\n", fault.Rejected},
		{"goose", "extensions: {} # none\nz: 1\n", fault.Rejected},
		{"goose", "extensions:\n- a\n", fault.Rejected},
		{"goose", "--- \na: 1\n...\n", fault.Rejected},
	} {
		got, err := find(t, tc.client).Add([]byte(tc.text), cmd)
		if fault.KindOf(err) != tc.kind || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %.60s: %v\n%s", tc.client, tc.text, err, got)
		}
	}
	if _, err := Find("emacs"); fault.KindOf(err) != fault.NotFound || !strings.Contains(fault.AdviceOf(err), "claude-code") {
		t.Error(err)
	}
}

// A file is refused, or keeps its content and has the entry after Add and not after Remove.
func FuzzAdd(f *testing.F) {
	f.Add("osaurus", `{"providers": [{"name": {}}, 7]}`)
	for _, tc := range files {
		f.Add(tc.client, tc.before)
		f.Add(tc.client, tc.after)
	}
	f.Fuzz(func(t *testing.T, id, text string) {
		c, err := Find(id)
		if err != nil {
			return
		}
		had := c.Has([]byte(text))
		after, err := c.Add([]byte(text), cmd)
		if err != nil {
			return
		}
		if !c.Has(after) {
			t.Fatalf("it is not in\n%s", after)
		}
		if again, err := c.Add(after, cmd); err != nil || string(again) != string(after) {
			t.Errorf("a second time: %v\n%s\nis not\n%s", err, again, after)
		}
		if back, err := c.Remove(after); err == nil && !had && c.Has(back) {
			t.Errorf("it is still in\n%s", back)
		}
	})
}
