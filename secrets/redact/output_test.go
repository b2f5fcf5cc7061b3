package redact_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets/redact"
)

// seen collects output like a terminal.
type seen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *seen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestPause checks that a pause flushes at most the first bytes of a possible value, and that the
// rest is still replaced.
func TestPause(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		live, to := new(redact.Live), new(seen)
		live.Set(redact.New(set(t, "abcdefgh")))
		o := redact.NewOutput(live)
		w := o.Writer(to)
		for _, step := range []struct {
			write, atOnce, later string
		}{
			{"> ab", "> ", "> ab"},
			{"x", "> abx", "> abx"},
			{"\nabc", "> abx\n", "> abx\nabc"},
			{"defgh", "> abx\nabc", "> abx\nabc[REDACTED:A]"},
			{"\nabcd", "> abx\nabc[REDACTED:A]\n", "> abx\nabc[REDACTED:A]\n"},
			{"e", "> abx\nabc[REDACTED:A]\n", "> abx\nabc[REDACTED:A]\n"},
			{"fgh", "> abx\nabc[REDACTED:A]\n", "> abx\nabc[REDACTED:A]\n[REDACTED:A]"},
		} {
			if _, err := io.WriteString(w, step.write); err != nil {
				t.Fatal(err)
			}
			if got := to.String(); got != step.atOnce {
				t.Errorf("after %q: %q, want %q", step.write, got, step.atOnce)
			}
			time.Sleep(time.Second)
			if got := to.String(); got != step.later {
				t.Errorf("a second after %q: %q, want %q", step.write, got, step.later)
			}
		}
		io.WriteString(w, "abcdefg")
		if err := o.Close(); err != nil || !strings.HasSuffix(to.String(), "[REDACTED:A]abcdefg") {
			t.Errorf("at the end: %q, %v", to, err)
		}
	})
}

// TestLive checks that a secret is replaced from the moment it is set, also if a part of
// it was held back for another.
func TestLive(t *testing.T) {
	live := new(redact.Live)
	var to bytes.Buffer
	o := redact.NewOutput(live)
	w := o.Writer(&to)
	write := func(text, want string) {
		t.Helper()
		io.WriteString(w, text)
		if to.String() != want {
			t.Errorf("after %q: %q, want %q", text, &to, want)
		}
		to.Reset()
	}
	write("abcdef secret", "abcdef secret")
	live.Set(redact.New(set(t, "abcdef")))
	write("abcdef abcd", "[REDACTED:A] ")
	live.Set(redact.New(set(t, "xyzxyz", "cdefgh", "abcdef")))
	write("efgh", "")
	write(" abc", "[REDACTED:C] ")
	live.Set(nil)
	write("def ", "abcdef ")
	if err := o.Close(); err != nil || to.Len() > 0 {
		t.Error(&to, err)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestOutputBroken checks that a failed write is reported, also for text that was held back.
func TestOutputBroken(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		gone := errors.New("gone")
		live := new(redact.Live)
		live.Set(redact.New(set(t, "abcdef")))
		o := redact.NewOutput(live)
		w := o.Writer(broken{gone})
		if _, err := io.WriteString(w, "x"); err != gone {
			t.Error(err)
		}
		if _, err := io.WriteString(w, "ab"); err != nil {
			t.Error(err) // nothing was written yet
		}
		time.Sleep(time.Second)
		if _, err := io.WriteString(w, "ab"); err != gone {
			t.Error(err)
		}
		if err := o.Close(); err != gone {
			t.Error(err)
		}
	})
}

// BenchmarkOutput measures output without secrets and with many.
func BenchmarkOutput(b *testing.B) {
	line := []byte("2026-01-02T03:04:05Z INFO request method=GET path=/v1/things/0123456789abcdef status=200 took=12.5ms agent=alice\n")
	text := bytes.Repeat(line, 64<<10/len(line))
	var values []string
	for i := range 20 {
		values = append(values, strings.Repeat(string(rune('a'+i)), 2)+"-"+strings.Repeat("Zq9"+string(rune('A'+i)), 9))
	}
	for name, list := range map[string][]redact.Secret{"none": nil, "20": set(b, values...)} {
		b.Run(name, func(b *testing.B) {
			live := new(redact.Live)
			live.Set(redact.New(list))
			w := redact.NewOutput(live).Writer(io.Discard)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w.Write(text)
			}
		})
	}
}
