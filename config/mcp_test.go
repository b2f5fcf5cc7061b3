package config

import "testing"

func TestParseLoopbackAddress(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "127.0.0.1:8138": true, "[::1]:8138": true, "127.9.9.9:1": true,
		"localhost:8138": false, "127.0.0.1": false, "127.0.0.1:0": false, ":8138": false, "0.0.0.0:8138": false, "[::]:8138": false,
		"192.0.2.1:8138": false, "127.0.0.1:70000": false, "[::1%lo]:8138": false, "127.0.0.1:8138 ": false,
	} {
		if _, err := ParseLoopbackAddress(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseWebOrigin(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://app.example": true, "http://localhost:3000": true, "http://[::1]:3000": true,
		"": false, "null": false, "app.example": false, "https://app.example/": false, "https://app.example/page": false, "https://APP.example": false,
		"ftp://app.example": false, "https://user@app.example": false, "https://app.example?": false, "https://": false,
	} {
		if _, err := parseWebOrigin(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
