package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// evil is text that sets a terminal's title, clears it (also by C1), overwrites a line, reverses
// the reading direction, and imitates a line of this program.
const evil = "evil\x1b]0;x\a\x1b[2J\u009b31m\x7f\u202etxt\u2028\rbell\x00\nFORGED line"

// obeyed reports whether a character controls a terminal or misleads its reader.
func obeyed(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029')
}

// evilMessage returns a message in which every text is evil. choice selects the field of each
// oneof.
func evilMessage(d protoreflect.MessageDescriptor, choice, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() && o.Fields().Get(choice%o.Fields().Len()) != f {
			continue
		}
		if v := evilValue(f, choice, depth); v.IsValid() {
			switch {
			case f.IsMap():
				value := evilValue(f.MapValue(), choice, depth)
				m.Mutable(f).Map().Set(evilValue(f.MapKey(), choice, depth).MapKey(), value)
			case f.IsList():
				m.Mutable(f).List().Append(v)
			default:
				m.Set(f, v)
			}
		}
	}
	return m
}

func evilValue(f protoreflect.FieldDescriptor, choice, depth int) protoreflect.Value {
	const deepest = 6
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(evilText(f.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(evilText(f.Name())))
	case protoreflect.MessageKind:
		if depth == deepest {
			return protoreflect.Value{}
		}
		return protoreflect.ValueOfMessage(evilMessage(f.Message(), choice, depth+1))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(choice%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	}
	one := map[protoreflect.Kind]any{
		protoreflect.Int32Kind: int32(1), protoreflect.Int64Kind: int64(1), protoreflect.Uint32Kind: uint32(1), protoreflect.Uint64Kind: uint64(1),
	}[f.Kind()]
	if one != nil {
		return protoreflect.ValueOf(one)
	}
	panic("a field of the kind " + f.Kind().String())
}

// evilText returns evil, in the form that the field needs to be accepted.
func evilText(field protoreflect.Name) string {
	object := func(v map[string]any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	switch field {
	case "input_schema":
		return object(map[string]any{"properties": map[string]any{evil: map[string]any{"type": evil, "description": evil, "enum": []string{evil}}}})
	case "envelope":
		return object(map[string]any{"ok": true, "result": map[string]string{evil: evil}, "warnings": []string{evil}})
	case "recipe":
		r := plugins.Skeleton("Evil")
		r.Setup = strings.ReplaceAll(evil, "\x00", "") // recipes must not contain it
		text, err := r.Encode()
		if err != nil {
			panic(err)
		}
		return string(text)
	case "kind":
		return string(fault.Execution)
	}
	return evil
}

// evilDaemon answers every call to a home's daemon with evil texts, or with evil errors.
func evilDaemon(t *testing.T, home config.Home, fails bool) {
	run, err := home.Make(home.Run())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(run, "sandbox.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// It answers without reading the request.
		method, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.Trim(r.URL.Path, "/"), "/", ".")))
		if err != nil {
			t.Error(err)
			return
		}
		answerEvil(t, w, method.(protoreflect.MethodDescriptor), fails)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
}

func answerEvil(t *testing.T, w http.ResponseWriter, method protoreflect.MethodDescriptor, fails bool) {
	const end = 2 // marks Connect's last envelope
	envelope := func(flag byte, data []byte) {
		head := binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(data)))
		_, _ = w.Write(append(head, data...)) // the client may be gone
	}
	failure := fault.New(fault.Rejected, evil, evil, io.EOF).Advise(evil)
	hello := method.Name() == "Hello"
	if fails && !hello {
		// As a daemon would that cleans nothing.
		text, _ := json.Marshal(map[string]any{"code": "failed_precondition", "message": evil + failure.Error()})
		if method.IsStreamingServer() {
			w.Header().Set("Content-Type", "application/connect+proto")
			envelope(end, []byte(`{"error":`+string(text)+`}`))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(text)
		return
	}
	const choices = 4 // no oneof has more fields
	var messages [][]byte
	for choice := range choices {
		m := evilMessage(method.Output(), choice, 0)
		if hello {
			m.Set(method.Output().Fields().ByName("version"), protoreflect.ValueOfUint32(control.VersionMax))
		}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Error(err)
		}
		messages = append(messages, data)
	}
	if !method.IsStreamingServer() {
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(messages[0])
		return
	}
	w.Header().Set("Content-Type", "application/connect+proto")
	for _, data := range messages {
		envelope(0, data)
	}
	envelope(end, []byte("{}"))
}

// No command lets text from agents, recipes, guests or the daemon control a terminal or imitate a
// line of this program.
func TestNothingIsObeyed(t *testing.T) {
	// Arguments for each command. A command that is in neither map fails the test.
	args := map[string][]string{
		"agent create": {"alice"}, "agent delete": {"alice", "--yes"}, "agent fork": {"alice", "bob"}, "snapshot create": {"alice", "evil"}, "snapshot delete": {"alice", "evil", "--yes"}, "snapshot diff": {"alice", "evil"},
		"snapshot list": {"alice"}, "snapshot restore": {"alice", "evil"}, "agent list": {}, "agent rename": {"alice", "bob"}, "agent reset": {"alice", "--yes"},
		"agent export": {"alice", "FOLDER/alice.tar.zst"}, "agent import": {"FILE"}, "mount": {"alice", "FOLDER"}, "mount list": {}, "unmount": {"alice", "app"}, "review": {"alice", "app"}, "review --stat": {"alice", "app", "--stat"},
		"review accept": {"alice", "app", "--yes"}, "review accept --hunk": {"alice", "app", "--hunk", evil + ":1"}, "review open": {"alice", "app"}, "review reject": {"alice", "app", "--yes"}, "sandbox snapshot create": {"evil"},
		"sandbox snapshot delete": {"evil", "--yes"}, "sandbox snapshot list": {}, "sandbox snapshot restore": {evil, "--yes"}, "agent set": {"alice", "network=none"}, "agent show": {"alice"}, "artifacts delete": {"1", "--yes"}, "history": {"alice"}, "diff": {"alice", "7"}, "undo": {"alice", "7", "a"}, "redo": {"alice"}, "verify": {},
		"artifacts list": {}, "artifacts path": {"1"}, "config set": {"autoRestart=true"},
		"artifacts save": {"1", "FOLDER"}, "cp": {"alice:evil", "FOLDER"}, "diagnose": {}, "forward": {"alice", "0:8080"}, "events": {}, "events --agents": {"--agents"}, "job kill": {"alice", "evil"}, "job list": {}, "job show": {"alice", "evil"},
		"job start": {"alice", "--", "true"}, "job wait": {"alice", "evil"}, "logs": {}, "logs --agent": {"--agent", "alice"}, "memory add": {"alice", "word"}, "memory delete": {"alice", "1"},
		"memory export": {"alice"}, "memory list": {"alice"}, "memory pin": {"alice", "1"}, "memory search": {"alice", "word"}, "network allow": {"alice", "example.org"}, "network deny": {"alice", "example.org"}, "network explain": {"alice", "example.org"},
		"network forget": {"alice", "allow evil.example"}, "network learn": {"alice"}, "network log": {"alice"}, "network log --follow": {"alice", "--follow"}, "network rules": {"alice"}, "plugin diff": {"evil", "1", "2"}, "plugin disable": {"evil", "alice"},
		"plugin duplicate": {"evil", "Twin"}, "plugin edit": {"evil"}, "plugin enable": {"evil", "alice"}, "plugin history": {"evil"}, "plugin import": {"owner/name"},
		"plugin install": {"evil", "alice"}, "plugin lint": {"FILE"}, "plugin list": {}, "plugin register": {"alice", "evil"}, "plugin remove": {"evil", "--yes"},
		"plugin rollback": {"evil", "1"}, "plugin show": {"evil"}, "plugin status": {}, "plugin uninstall": {"evil", "alice"},
		"plugin update": {"evil", "alice"}, "plugin verify": {"alice"}, "prompt answer": {}, "prompt cancel": {"evil"}, "prompt list": {}, "prompt watch": {}, "ps": {},
		"provision": {}, "restart": {}, "session close": {"alice", "default"}, "session list": {}, "session show": {"alice", "default"}, "status": {},
		"status --watch": {"--watch"}, "task add": {"alice", "word"}, "task cancel": {"evil"}, "task done": {"evil", "lease"}, "task fail": {"evil", "lease"}, "task list": {}, "task show": {"evil"}, "task take": {},
		"tool call": {"alice", "sandbox_exec", "{}"}, "tool describe": {"alice", evil}, "tool list": {"alice"}, "top": {"--count", "1"}, "up": {},
	}
	silent := map[string]string{
		"job tail": "what a command writes, as it is", "exec": "what a command writes, as it is", "shell": "a person's own terminal in the room", "boot": "what a command writes, as it is",
		"plugin export": "see TestPluginExport",
		"audit list":    "see audit's own test", "audit verify": "a number and a hash", "config get": "of the person alone", "config show": "of the person alone", "doctor": "of this computer",
		"mcp config": "of the person alone", "mcp install": "of the person alone", "mcp uninstall": "of the person alone", "network sets": "of this program", "pack build": "of this computer", "pack export": "of this computer",
		"pack import": "names have a form", "pack list": "names have a form", "pack remove": "of this computer", "pack show": "names have a form", "pack verify": "names have a form",
		"plugin init": "of the person alone", "plugin schema": "of this program", "secret ask": "names have a form", "secret delete": "names have a form", "secret list": "names have a form",
		"secret passphrase": "of the person alone", "secret set": "names have a form", "serve": "no text of anybody's", "service install": "of this computer", "service status": "of this computer",
		"service uninstall": "of this computer", "version": "of this program", "down": "waits for a daemon's end", "remove": "waits for a daemon's end", "reset": "waits for a guest's end",
	}
	// These print several lines on purpose.
	several := []string{"diff", "review", "tool describe", "tool call", "plugin diff", "session show"}
	for _, fails := range []bool{false, true} {
		home := config.Home(filepath.Join(t.TempDir(), "h"))
		t.Setenv(config.HomeVariable, string(home))
		evilDaemon(t, home, fails)
		recipe := filepath.Join(t.TempDir(), "recipe.json")
		if err := os.WriteFile(recipe, []byte(`{"`+strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, evil)+`":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("EDITOR", "true")
		t.Setenv("TMPDIR", t.TempDir())
		known := map[string]bool{}
		for name, rest := range args {
			command := strings.Split(strings.Split(name, " --")[0], " ")
			known[strings.Join(command, " ")] = true
			for _, asJSON := range []bool{false, true} {
				line := slices.Concat(command, rest)
				for i, arg := range line {
					line[i] = strings.NewReplacer("FILE", recipe, "FOLDER", t.TempDir()).Replace(arg)
				}
				if asJSON {
					if cmd, _, err := newRoot(console{nil, io.Discard, io.Discard}).Find(command); err != nil || cmd.Flags().Lookup("json") == nil {
						continue
					}
					line = slices.Insert(line, len(command), "--json")
				}
				var out bytes.Buffer
				code := run(t.Context(), console{strings.NewReader("once\n"), &out, &out}, line)
				text := out.String()
				switch {
				case code == fault.ExitInvalidArgs && !fails && name != "plugin lint": // which exits with this code
					t.Errorf("%q is no command line: %s", line, text)
				case strings.ContainsFunc(text, obeyed):
					t.Errorf("%q prints %q", line, text)
				case strings.Contains(text, "\nFORGED") && !slices.Contains(several, strings.Join(command, " ")):
					t.Errorf("%q lets a line pass for its own: %q", line, text)
				case fails && code == exitOK:
					t.Errorf("%q does not fail", line)
				}
			}
		}
		var walk func(*cobra.Command)
		walk = func(cmd *cobra.Command) {
			name := strings.TrimPrefix(cmd.CommandPath(), "osaurus-sandbox ")
			if !cmd.HasSubCommands() && !known[name] && silent[name] == "" {
				t.Errorf("%s: say here with which arguments it is tried, or why not", name)
			}
			for _, sub := range cmd.Commands() {
				walk(sub)
			}
		}
		walk(newRoot(console{nil, io.Discard, io.Discard}))
	}
}

// plugin export shows a terminal nothing that it obeys, and gives a file each byte.
func TestPluginExport(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "h"))
	t.Setenv(config.HomeVariable, string(home))
	evilDaemon(t, home, false)
	if code, shown := onTerminal(t, nil, "plugin", "export", "evil").end(); code != exitOK ||
		!strings.Contains(shown, `\u009b31m`) || strings.ContainsFunc(strings.ReplaceAll(shown, "\r\n", "\n"), obeyed) {
		t.Errorf("on a terminal: %d, %q", code, shown)
	}
	prints(t, evilText("recipe"), "plugin", "export", "evil")
}

// agent export writes its file and touches no other.
func TestAgentExport(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "h"))
	t.Setenv(config.HomeVariable, string(home))
	evilDaemon(t, home, false)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.tar.zst.part", []byte("a person's own"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "agent", "export", "alice", "a.tar.zst")
	entries, err := os.ReadDir(".")
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if text, _ := os.ReadFile("a.tar.zst.part"); string(text) != "a person's own" {
		t.Errorf("another file became %q", text)
	}
	if text, _ := os.ReadFile("a.tar.zst"); !strings.Contains(string(text), evil) {
		t.Errorf("the archive is %q", text)
	}
}

// Every line that a terminal shows of an agent's text has the mark, however long it is.
func TestPromptIsFramed(t *testing.T) {
	const columns = 40
	for _, text := range []string{
		strings.Repeat(" ", columns) + "osaurus-sandbox: your passphrase?", "line\n" + strings.Repeat("x", 3*columns), strings.Repeat("\t", columns) + "x", strings.Repeat("漢", columns),
		evil, "",
	} {
		for line := range strings.Lines(string(framed(text, "  | ", columns))) {
			wide := 0
			for _, r := range line {
				if r > unicode.MaxASCII {
					wide++
				}
			}
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "  | ") || len([]rune(line))+wide > columns || strings.ContainsFunc(line, obeyed) {
				t.Errorf("%q becomes %q", text, line)
			}
		}
	}
}

// Escaping JSON keeps its meaning.
func FuzzHarmlessJSON(f *testing.F) {
	f.Add(evil)
	f.Add("plain")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		var b bytes.Buffer
		if err := printJSONLine(&b, map[string]string{text: text}); err != nil {
			t.Fatal(err)
		}
		var again map[string]string
		if err := json.Unmarshal(b.Bytes(), &again); err != nil || again[text] != text {
			t.Errorf("%q became %q (%v)", text, again, err)
		}
		if strings.ContainsFunc(b.String(), obeyed) {
			t.Errorf("%q is printed as %q", text, b.String())
		}
		if strings.ContainsFunc(string(lines(text)), obeyed) || strings.ContainsFunc(string(safef("%s", text)), func(r rune) bool { return obeyed(r) || r == '\n' || r == '\t' }) {
			t.Errorf("%q is shown as %q", text, lines(text))
		}
	})
}
