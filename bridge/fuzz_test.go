package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// FuzzHTTP sends any bytes to the server. Answers are HTTP with short JSON bodies, and calls without
// alice's token reach no service.
func FuzzHTTP(f *testing.F) {
	world := newWorld(f)
	for _, c := range everyRoute {
		f.Add([]byte(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nX-Osaurus-Plugin: rss\r\nX-Osaurus-Script-Id: s\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, len(c.body), c.body)))
	}
	f.Add([]byte("POST /api/log HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("GET http://a/api/secrets/%4b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		w := world.in(t)
		before := w.services.count()
		c := w.dial(alice.UID)
		defer c.Close()
		go func() {
			_, _ = c.Write(bytes.ReplaceAll(text, []byte("TOKEN"), []byte(w.alice)))
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		for _, r := range read(c, 100) {
			if r.status < 200 || r.status > 599 {
				t.Errorf("status %d", r.status)
			}
			if len(r.body) > 64<<10 {
				t.Errorf("an answer of %d bytes", len(r.body))
			}
			if r.header.Get("Content-Type") == "application/json" && r.body != "" && !json.Valid([]byte(r.body)) {
				t.Errorf("%d with %q", r.status, r.body)
			}
		}
		if w.services.count() != before && !bytes.Contains(text, []byte("TOKEN")) {
			t.Errorf("a stranger was worked for: %s", w.services.last())
		}
		w.services.forget()
	})
}

// FuzzBody sends any bytes as the body of every route. The answer conforms to the document, and
// services get valid text.
func FuzzBody(f *testing.F) {
	world := newWorld(f)
	for i, c := range everyRoute {
		f.Add(uint8(i), c.body)
	}
	for _, body := range []string{"", "null", "[]", `{"value":1}`, `{"messages":[null,{}]}`, `{"payload":` + strings.Repeat("[", 100), "\xff", `{"type":"a","payload":"\ud800"}`, `{"arguments":[]}`} {
		f.Add(uint8(3), body)
	}
	f.Fuzz(func(t *testing.T, route uint8, body string) {
		w := world.in(t)
		c := everyRoute[int(route)%len(everyRoute)]
		c.body = body
		got := w.ask(c.of(w, alice))
		switch {
		case got.status == 200 && got.header.Get("Content-Type") == "text/event-stream":
		case !json.Valid([]byte(got.body)):
			t.Errorf("%s with %q: %v", c.path, body, got)
		case got.status != 200 && got.status != 400 && got.status != 403 && got.status != 404 && got.status != 413:
			t.Errorf("%s with %q: %v", c.path, body, got)
		}
		if asked := w.services.last(); strings.ToValidUTF8(asked, "") != asked {
			t.Errorf("%s with %q: %q", c.path, body, asked)
		}
		w.services.forget()
	})
}

// FuzzPath sends any path. Services get valid names.
func FuzzPath(f *testing.F) {
	world := newWorld(f)
	for _, c := range everyRoute {
		f.Add(c.path)
	}
	for _, path := range []string{"/", "//api//log", "/api/secrets/%2e%2e", "/api/secrets/%252e", "/api/config/a%00b", "/api/config/%zz", "/api/sandbox-tool/a/b", "*", "/api/config/\u00e4?x"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		w := world.in(t)
		if strings.ContainsAny(path, " \r\n") {
			return // these end a path
		}
		got := w.ask(w.as(alice, "GET", path, ""))
		if got.status == 200 {
			for _, allowed := range []string{"agent-alice/rss secret ", "agent-alice/rss config "} {
				if name, ok := strings.CutPrefix(w.services.last(), allowed); ok && !strings.ContainsAny(name, "/\\%\x00 ") && name != ".." {
					w.services.forget()
					return
				}
			}
			t.Errorf("%q: %v, asked %q", path, got, w.services.last())
		}
	})
}

// FuzzNames parses any text as each kind of name.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"", "a", "rss.new", "..", "a/b", "warn", "A:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, keyErr := bridge.ParseConfigKey(text)
		topic, topicErr := bridge.ParseTopic(text)
		level, levelErr := bridge.ParseLevel(text)
		for name, err := range map[string]error{string(key): keyErr, string(topic): topicErr, string(level): levelErr} {
			if err == nil && (name != text || name == "" || strings.ContainsAny(name, "/ \x00\n") || name[0] == '.' || name[0] == '-') {
				t.Errorf("%q is read as %q", text, name)
			}
			if err != nil && (fault.KindOf(err) != fault.InvalidArgs || len(err.Error()) > 200) {
				t.Errorf("%v", err)
			}
		}
	})
}
