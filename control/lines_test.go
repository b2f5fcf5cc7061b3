package control

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http/httptest"
	"testing"

	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/redact"
)

// Each line becomes one envelope.
func FuzzEnvelopes(f *testing.F) {
	f.Add([]byte("{}\n\n  {\"a\":1}\r\n"))
	f.Add([]byte("no end"))
	f.Add([]byte{0, '\n', 2, 0, 0, 0, 1, '\n'})
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := io.ReadAll(envelopes(bytes.NewReader(in), bufio.ScanLines))
		if err != nil && len(in) < maxMessage {
			t.Fatal(err)
		}
		want := 0
		for _, line := range bytes.Split(in, []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				if len(out) < envelopeSize || out[0] != 0 || int(binary.BigEndian.Uint32(out[1:])) != len(line) || !bytes.HasPrefix(out[envelopeSize:], line) {
					t.Fatalf("line %q is %q", line, out)
				}
				out = out[envelopeSize+len(line):]
				want++
			}
		}
		if len(out) > 0 {
			t.Errorf("%q after %d lines", out, want)
		}
	})
}

// An answer becomes lines, however its envelopes are cut.
func TestLineWriter(t *testing.T) {
	end := func(text string) []byte { b := envelope([]byte(text)); b[0] = flagEnd; return b }
	for _, tc := range []struct {
		name  string
		parts [][]byte
		code  int
		body  string
	}{
		{"messages", [][]byte{envelope([]byte(`{"a":1}`)), envelope([]byte(`{}`)), end("{}")}, 200, "{\"a\":1}\n{}\n"},
		{"none", [][]byte{end("{}")}, 200, ""},
		{"an error at once", [][]byte{end(`{"error":{"code":"not_found"}}`)}, 404, "{\"code\":\"not_found\"}\n"},
		{"an error later", [][]byte{envelope([]byte(`{}`)), end(`{"error":{"code":"unknown"}}`)}, 200, "{}\n{\"error\":{\"code\":\"unknown\"}}\n"},
	} {
		for _, size := range []int{1, 3, 1000} {
			recorder := httptest.NewRecorder()
			w := &lineWriter{ResponseWriter: recorder}
			for all := bytes.Join(tc.parts, nil); len(all) > 0; {
				n := min(size, len(all))
				if _, err := w.Write(all[:n]); err != nil {
					t.Fatal(err)
				}
				all = all[n:]
			}
			if recorder.Code != tc.code || recorder.Body.String() != tc.body {
				t.Errorf("%s by %d: %d %q", tc.name, size, recorder.Code, recorder.Body)
			}
		}
	}
}

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"sh", "-c", "echo it's $HOME", "", "ä"})
	if want := `sh -c 'echo it'\''s $HOME' '' ` + "'ä'"; got != want {
		t.Errorf("%s", got)
	}
}

func TestSecretsGoBeforeQuoting(t *testing.T) {
	value, err := secrets.ParseValue("it's-secret")
	if err != nil {
		t.Fatal(err)
	}
	clean := redact.New([]redact.Secret{{Name: "TOKEN", Value: value}})
	if got := redactedCommand(clean, []string{"curl", "-u", "bob:it's-secret"}); got != "curl -u 'bob:[REDACTED:TOKEN]'" {
		t.Error(got)
	}
}
