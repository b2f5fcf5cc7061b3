package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// Clients of every version of the protocol get the same results, as structure and as text.
func TestVersions(t *testing.T) {
	s := &stand{names: []string{"one", "two"}, tools: map[string]func(context.Context, call) (string, error){
		"one": fine(`{"n":1}`),
		"shut": func(context.Context, call) (string, error) {
			return `{"ok":false,"kind":"rejected","message":"it is off","retryable":false,"tool":"shut"}`, nil
		},
		"broken": func(context.Context, call) (string, error) {
			return "", fault.Newf(fault.Unavailable, "connect", "", "nobody is there").Advise("Start it.")
		},
		"panics": func(context.Context, call) (string, error) { panic("at the disco") },
	}}
	try := func(t *testing.T, w *wire, meta string) {
		call := func(tool string) message {
			m, _ := w.ask(callTool, fmt.Sprintf(`{"name":%q,"arguments":{}%s}`, tool, meta))
			return m
		}
		var list struct {
			Tools []struct {
				Name         string
				OutputSchema struct{ Required []string }
				Annotations  map[string]bool
			}
		}
		m, _ := w.ask(listTools, "{"+strings.TrimPrefix(meta, ",")+"}")
		if err := json.Unmarshal(m.Result, &list); err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "one" || list.Tools[0].OutputSchema.Required[0] != "ok" || len(list.Tools[0].Annotations) != 4 {
			t.Fatalf("%s: %v", m.Result, err)
		}
		type result struct {
			IsError           bool
			StructuredContent json.RawMessage
			Content           []struct{ Type, Text string }
		}
		for tool, want := range map[string]string{"one": `{"ok":true,"result":{"n":1},"tool":"t"}`, "shut": "it is off", "broken": "nobody is there. Start it."} {
			var got result
			if m := call(tool); json.Unmarshal(m.Result, &got) != nil || got.IsError != (tool != "one") || len(got.Content) != 1 ||
				string(got.StructuredContent) != got.Content[0].Text || !strings.Contains(got.Content[0].Text, want) {
				t.Errorf("%s: %s %v", tool, m.Result, m.Error)
			}
		}
		for tool, code := range map[string]int{"none": -32602, "panics": -32603} {
			if m := call(tool); m.Error == nil || m.Error.Code != code {
				t.Errorf("%s: %s %v", tool, m.Result, m.Error)
			}
		}
	}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			w := serve(t, Options{Sandbox: s})
			var hello struct{ ProtocolVersion, Instructions string }
			if m := w.greet("an app", version); json.Unmarshal(m.Result, &hello) != nil || hello.ProtocolVersion != version || !strings.Contains(hello.Instructions, `"an-app"`) {
				t.Fatalf("%s %v", m.Result, m.Error)
			}
			try(t, w, "")
		})
	}
	t.Run(stateless, func(t *testing.T) {
		w := serve(t, Options{Sandbox: s})
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"an app","version":"1"}}`
		var hello struct {
			SupportedVersions        []string
			Instructions, ResultType string
		}
		if m, _ := w.ask(discover, "{"+meta+"}"); json.Unmarshal(m.Result, &hello) != nil || hello.SupportedVersions[0] != stateless || !strings.Contains(hello.Instructions, `"an-app"`) || hello.ResultType != "complete" {
			t.Fatalf("%s %v", m.Result, m.Error)
		}
		try(t, w, ","+meta)
	})
}

// A session with a named agent works as that one, or fails.
func TestNamedAgent(t *testing.T) {
	s := &stand{names: []string{"one", "two"}, agents: map[string]*controlpb.Agent{"alice": {Id: "A", Name: "alice", Settings: []*controlpb.Setting{{Key: string(tools.Exec), Value: "true"}}}}}
	w := serve(t, Options{Sandbox: s, Agent: "alice", Profile: tools.Lean})
	if m := w.greet("an app", "2025-11-25"); !strings.Contains(string(m.Result), `\"alice\"`) || strings.Contains(string(m.Result), "only read") {
		t.Errorf("%s", m.Result)
	}
	if m, _ := w.ask(listTools, "{}"); !strings.Contains(string(m.Result), `"one"`) || strings.Contains(string(m.Result), `"two"`) {
		t.Errorf("lean: %s", m.Result)
	}
	w = serve(t, Options{Sandbox: s, Agent: "bob"})
	if m := w.greet("an app", "2025-11-25"); m.Error == nil || !strings.Contains(m.Error.Message, "bob: there is none. Make it.") {
		t.Errorf("%s %v", m.Result, m.Error)
	}
}

// A client is notified when its tools have changed.
func TestListChanged(t *testing.T) {
	s := &stand{names: []string{"one"}}
	w := serve(t, Options{Sandbox: s})
	w.greet("an app", "2025-11-25")
	w.ask(listTools, "{}")
	s.change("one")
	s.change("one", "two")
	if m := w.read(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("%+v", m)
	}
	if m, told := w.ask(listTools, "{}"); !strings.Contains(string(m.Result), `"two"`) || strings.Contains(string(m.Result), `"changed"`) || len(told) > 0 {
		t.Errorf("%s %v", m.Result, told)
	}
}

// A client that subscribes is notified of changes since it listed the tools.
func TestListen(t *testing.T) {
	s := &stand{names: []string{"one"}}
	w := serve(t, Options{Sandbox: s})
	hears := func(method string) {
		t.Helper()
		if m := w.read(); m.Method != method {
			t.Errorf("%+v, want %s", m, method)
		}
	}
	w.send(ungreeted("1", listTools, `"cursor":""`))
	w.read()
	s.change("one", "two")
	w.send(ungreeted("2", listen, `"notifications":{"toolsListChanged":true}`))
	hears(listened)
	hears("notifications/tools/list_changed")
	w.send(ungreeted("3", listTools, `"cursor":""`))
	w.read()
	s.change("one")
	hears("notifications/tools/list_changed")
}

// A call that is cancelled ends and is not answered, and so do all when the client has left.
func TestCancel(t *testing.T) {
	s, begun, ended := endless()
	w := serve(t, Options{Sandbox: s})
	w.greet("an app", "2025-11-25")
	w.send(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"endless"}}`)
	<-begun
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77,"reason":"no more"}}`)
	<-ended
	w.ask("ping", "{}")
	w.send(`{"jsonrpc":"2.0","id":78,"method":"tools/call","params":{"name":"endless"}}`)
	<-begun
	gone := make(chan error)
	go func() { gone <- w.end() }()
	<-ended
	if err := <-gone; err != nil {
		t.Error(err)
	}
	if got := w.answered(); got[77] || got[78] || !got[w.next] {
		t.Errorf("answered are %v", got)
	}
}

// endless returns a sandbox with one tool that lasts until it is cancelled.
func endless() (s *stand, begun chan bool, ended chan error) {
	begun, ended = make(chan bool), make(chan error)
	return &stand{tools: map[string]func(context.Context, call) (string, error){
		"endless": func(ctx context.Context, _ call) (string, error) {
			begun <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return "", ctx.Err()
		},
	}}, begun, ended
}

// Progress goes to clients that ask for it, grows, and is one line.
func TestProgress(t *testing.T) {
	s := &stand{tools: map[string]func(context.Context, call) (string, error){"long": func(ctx context.Context, c call) (string, error) {
		if c.tell == nil {
			return fine(`"nobody listens"`)(ctx, c)
		}
		for i := range 3 {
			c.tell(&controlpb.ToolProgress{Text: "a\nstep", Done: float64(10 - i), Total: 20})
			time.Sleep(progressPace)
		}
		return fine(`{}`)(ctx, c)
	}}}
	w := serve(t, Options{Sandbox: s})
	w.greet("an app", "2025-11-25")
	if _, told := w.ask(callTool, `{"name":"long"}`); len(told) != 0 {
		t.Errorf("%v", told)
	}
	_, told := w.ask(callTool, `{"name":"long","_meta":{"progressToken":"p"}}`)
	last := 0.0
	for _, m := range told {
		var p struct {
			ProgressToken, Message string
			Progress               float64
		}
		if err := json.Unmarshal(m.Params, &p); err != nil || m.Method != "notifications/progress" || p.ProgressToken != "p" || p.Progress <= last || strings.Contains(p.Message, "\n") || !strings.Contains(p.Message, "%)") {
			t.Errorf("%s %v", m.Params, err)
		}
		last = p.Progress
	}
	if len(told) == 0 {
		t.Error("nothing was told")
	}
}

// Turn and conversation are in _meta.
func TestTurn(t *testing.T) {
	turns := make(chan string, 2)
	s := &stand{tools: map[string]func(context.Context, call) (string, error){"t": func(ctx context.Context, c call) (string, error) {
		turns <- c.Turn + " of " + c.Session
		return fine(`{}`)(ctx, c)
	}}}
	w := serve(t, Options{Sandbox: s})
	w.greet("an app", "2025-11-25")
	w.ask(callTool, `{"name":"t","_meta":{"ai.osaurus/turn":"turn 7","ai.osaurus/session":"news"}}`)
	w.ask(callTool, `{"name":"t","_meta":{"ai.osaurus/turn":7}}`)
	if first, second := <-turns, <-turns; first != "turn 7 of news" || second != " of " {
		t.Errorf("%q %q", first, second)
	}
}

// Long texts in results are cut in their middle.
func TestLongResult(t *testing.T) {
	text, _ := json.Marshal(strings.Repeat("ä line\n", 20_000))
	s := &stand{tools: map[string]func(context.Context, call) (string, error){"long": fine(`{"text":` + string(text) + `,"n":12345678901234567890,"list":["a"]}`)}}
	w := serve(t, Options{Sandbox: s})
	w.greet("an app", "2025-11-25")
	var got struct {
		StructuredContent struct {
			Result struct {
				Text string
				N    json.Number
			}
		}
	}
	m, _ := w.ask(callTool, `{"name":"long"}`)
	if err := json.Unmarshal(m.Result, &got); err != nil {
		t.Fatal(err)
	}
	short := got.StructuredContent.Result
	if len(short.Text) > maxShown+200 || !strings.HasPrefix(short.Text, "ä line\n") || !strings.HasSuffix(short.Text, "ä line\n") || strings.Contains(short.Text, "\uFFFD") || short.N != "12345678901234567890" {
		t.Errorf("%d bytes, %s", len(short.Text), short.N)
	}
}

// A shortened envelope is an envelope.
func FuzzShorten(f *testing.F) {
	f.Add("é", 100_000)
	f.Add(`{"ok":true,"result":{"text":"é"},"tool":"t","warnings":["w"]}`, 3)
	f.Fuzz(func(t *testing.T, text string, times int) {
		inner, err := json.Marshal(strings.Repeat(text, 1+min(max(times, 0), 2*maxShown/(len(text)+1))))
		if err != nil {
			t.Skip()
		}
		e := `{"ok":true,"result":{"text":` + string(inner) + `}}`
		short := shorten(e)
		var got struct{ Result struct{ Text string } }
		if err := json.Unmarshal([]byte(short), &got); err != nil || !strings.HasPrefix(short, `{"ok":true`) {
			t.Fatalf("%v in %.100s", err, short)
		}
		if len(got.Result.Text) > maxShown+200 || short != e && len(e) <= maxShown {
			t.Errorf("%d bytes became %d", len(e), len(short))
		}
	})
}
