package bridge_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

// of returns a body of 2 MiB: begin, as many comma-separated parts as fit, and end.
func of(begin, part, end string) string {
	n := (2<<20 - len(begin) - len(end) + 1) / (len(part) + 1)
	return begin + strings.Repeat(part+",", n-1) + part + end
}

// TestManyParts checks that the memory for a body depends on its size, not on its number of
// parts.
func TestManyParts(t *testing.T) {
	const most = 10 // times its size; the race detector needs more
	w := newWorld(t)
	w.services.hold = func(context.Context) error { // the test's services allocate nothing
		return fault.New(fault.Unavailable, "do", "it", nil)
	}
	many := of(`{`, `"a":0`, `}`)
	for name, c := range map[string]struct{ path, body string }{
		"one text":            {"/api/log", of(`{"message":"`, "x", `"}`)},
		"numbers as messages": {"/api/inference/chat", of(`{"messages":[`, "0", `]}`)},
		"empty messages":      {"/api/inference/chat", of(`{"messages":[`, "{}", `]}`)},
		"whole messages":      {"/api/inference/chat", of(`{"messages":[`, `{"role":"","content":""}`, `]}`)},
		"lists of messages":   {"/api/inference/chat", of(`{`, `"messages":[`+strings.Repeat("0,", 9_999)+`0]`, `}`)},
		"one message":         {"/api/inference/chat", of(`{"messages":[{`, `"a":0`, `}]}`)},
		"a payload":           {"/api/events/emit", of(`{"type":"a","payload":{`, `"a":0`, `}}`)},
		"settings":            {"/api/config/key", many},
		"tools":               {"/api/sandbox-tool/sandbox_exec", many},
		"different names": {"/api/log", func() string {
			var b strings.Builder
			for i := 0; b.Len() < 2<<20; i++ {
				fmt.Fprintf(&b, `,"%x":0`, i)
			}
			return "{" + b.String()[1:] + "}"
		}()},
		"wrong values": {"/api/log", of(`{`, `"message":0`, `}`)},
	} {
		text := []byte(w.head("POST", c.path) + "X-Osaurus-Script-Id: s1\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(c.body)) + c.body)
		conn := w.dial(alice.UID)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		go conn.Write(text)
		got := read(conn, 1)
		runtime.ReadMemStats(&after)
		conn.Close()
		times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(c.body))
		if len(got) != 1 || times > most {
			t.Errorf("%s: %.1f times its size, and the answer %.200v", name, times, got)
		}
	}
}

// TestTooManyParts sends as many parts as are allowed, and one more.
func TestTooManyParts(t *testing.T) {
	w := newWorld(t)
	parts := func(n int, part string) string { return strings.Repeat(part+",", n-1) + part }
	message := `{"role":"user","content":"[\"\\,"}`
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"members":              {"/api/log", `{"message":"a",` + parts(255, `"x":[{},{"y":1,"z":2}]`) + `}`, 200, `{}`},
		"a member more":        {"/api/log", `{"message":"a",` + parts(256, `"x":0`) + `}`, 400, `{"error":"read body: it has more than 256 members","kind":"invalid_args","advice":"Send only the members of the route."}`},
		"commas in texts":      {"/api/log", `{"message":"\"` + strings.Repeat(`,\\\",`, 1000) + `"}`, 200, `{}`},
		"members, and no JSON": {"/api/log", `{"message":"a",` + parts(256, `"x":0`), 400, `{"error":"read body: it is not a JSON object","kind":"invalid_args","advice":"Send a JSON object in UTF-8."}`},
		"arguments":            {"/api/sandbox-tool/sandbox_exec", `{` + parts(257, `"x":0`) + `}`, 400, `{"error":"read body: it has more than 256 members","kind":"invalid_args","advice":"Send only the members of the route."}`},
		"a payload":            {"/api/events/emit", `{"type":"a","payload":{` + parts(20_000, `"x":0`) + `}}`, 200, `{}`},
		"messages":             {"/api/inference/chat", `{"messages":[` + parts(10_000, message) + `]}`, 200, `{"content":"hello, you"}`},
		"a message more":       {"/api/inference/chat", `{"messages":[` + parts(10_001, message) + `]}`, 400, `{"error":"read body messages: more than 10000 messages","kind":"invalid_args","advice":"Leave out the oldest, or sum them up in one."}`},
		"a text":               {"/api/inference/chat", `{"messages":"hi"}`, 400, `{"error":"read body: json: cannot unmarshal string into Go struct field .messages of type []json.RawMessage","kind":"invalid_args"}`},
	} {
		r := w.as(alice, "POST", c.path, c.body)
		r.headers["X-Osaurus-Script-Id"] = "s1"
		if got := w.ask(r); got.status != c.status || got.body != c.says {
			t.Errorf("%s: %.300v, want %d %s", name, got, c.status, c.says)
		}
		if c.status != 200 && w.services.count() > 0 {
			t.Errorf("%s: a service was asked", name)
		}
		w.services.forget()
	}
}
