package tools

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzMembers: what is read quickly is what encoding/json reads, and all that is usual is read
// quickly.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "path" : "p" , "lines":15.0,"names":["a\"]}"],"env":{"A":null} , "force":true } `, `{"a":"\u00e9\ud83d\ude00\ud83d\u0041\\\"\/\b\f\n\r\t","\\":"é\\"}`,
		`{"a":"\"}`, `{"a":"\x"}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", `{"a":1,"a":2}`, `{"a":1}}`, `{"a":01}`, `{"a":"b",}`, `{,}`, `{"a" "b"}`, `"{}"`, `{"a":"\u12"}`,
		`{"a":"\`, `{"`, `{"a":"b"`, `{"a":1 2}`, "\v{}\f",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		in = strings.TrimSpace(in) // as object does
		got, ok := members([]byte(in))
		want, usual := anyObject([]byte(in))
		if ok && (!usual || !reflect.DeepEqual(got, want)) {
			t.Errorf("%q: %q, and not %q, %t", in, got, want, usual)
		}
		if again, err := json.Marshal(want); usual && err == nil {
			if got, ok := members(again); !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q, %t, and not %q", again, got, ok, want)
			}
		}
	})
}

// BenchmarkObject reads the arguments with which a large file is written.
func BenchmarkObject(b *testing.B) {
	raw, err := json.Marshal(map[string]any{"path": "large.txt", "content": strings.Repeat(strings.Repeat("0123456789", 6)+"\n", 100_000), "mode": "append"})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func([]byte) (map[string]any, bool){"members": members, "encoding/json": anyObject} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, ok := read(raw); !ok {
					b.Fatal("not read")
				}
			}
		})
	}
}
