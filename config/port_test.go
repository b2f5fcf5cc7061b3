package config

import "testing"

func TestParsePort(t *testing.T) {
	for text, want := range map[string]Port{"1": 1, "8080": 8080, "65535": 65535, "": 0, "0": 0, "65536": 0, "-1": 0, "+80": 0, "80 ": 0, "http": 0, "0x50": 0, "127.0.0.1:80": 0} {
		if p, err := ParsePort(text); p != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", text, p, err)
		}
	}
}
