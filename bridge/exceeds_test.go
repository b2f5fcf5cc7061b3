package bridge

import (
	"bytes"
	"encoding/json"
	"testing"
)

// parts counts the parts of an object or an array with the standard library. Repeated names
// count.
func parts(t *testing.T, text []byte) (open byte, n int) {
	d := json.NewDecoder(bytes.NewReader(text))
	begin, err := d.Token()
	delim, ok := begin.(json.Delim)
	if err != nil || !ok {
		return 0, 0
	}
	for ; d.More(); n++ {
		if delim == '{' {
			if _, err := d.Token(); err != nil {
				t.Fatal(err)
			}
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return byte(delim), n
}

// FuzzExceeds compares exceeds with the standard library.
func FuzzExceeds(f *testing.F) {
	for _, text := range []string{``, `null`, `7`, `","`, `{}`, `[]`, ` [ 1 , 2 ] `, `{"a":1,"a":2}`, `{"\",\\":[1,2,3],"b":{"c":0,"d":0}}`, `["\\",",",["]"],"]"]`, `{"a":"\u0022,\u0022","b":","}`, `[[],[],[]]`, `[1`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		valid := json.Valid(text)
		var begins byte
		n := 0
		if valid {
			begins, n = parts(t, text)
		}
		for _, open := range []byte("{[") {
			for most := 1; most < 6; most++ {
				if got := exceeds(text, open, most); valid && got != (begins == open && n > most) {
					t.Errorf("%q: more than %d parts in %c: %v, and it has %d in %c", text, most, open, got, n, begins)
				}
			}
		}
	})
}
