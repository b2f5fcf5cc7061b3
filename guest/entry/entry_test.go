package entry

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"osaurus-sandbox/guest/internal/wire"
)

// What is behind an entry stays where it is: it is for somebody else to read.
func TestRead(t *testing.T) {
	want := Entry{Key: wire.Key([]byte(strings.Repeat("k", wire.KeySize)))}
	for _, want.User = range []string{"agent-alice", ""} {
		from := strings.NewReader(string(want.Bytes()) + "POST /")
		got, err := Read(from)
		if rest, _ := io.ReadAll(from); err != nil || got != want || string(rest) != "POST /" {
			t.Errorf("%+v, %v, then %q", got, err, rest)
		}
	}
	want.User = "agent-alice"
	for name, bad := range map[string][]byte{
		"nothing":        nil,
		"another mark":   append([]byte("PRI * HT"), want.Bytes()[len(mark):]...),
		"cut in the key": want.Bytes()[:head-2],
		"cut in a name":  want.Bytes()[:head+3],
	} {
		if e, err := Read(bytes.NewReader(bad)); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// FuzzRead: what is read is what was written, and no byte more is taken.
func FuzzRead(f *testing.F) {
	f.Add(append(Entry{User: "agent-alice"}.Bytes(), "POST /"...))
	f.Add([]byte(mark))
	f.Fuzz(func(t *testing.T, b []byte) {
		from := bytes.NewReader(b)
		e, err := Read(from)
		if err != nil {
			return
		}
		if read := b[:len(b)-from.Len()]; !bytes.Equal(e.Bytes(), read) {
			t.Errorf("%q was read as %+v", read, e)
		}
	})
}
