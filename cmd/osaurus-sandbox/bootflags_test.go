package main

import (
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"512M": 512 << 20, "2G": 2 << 30, "1g": 1 << 30, "128m": 128 << 20,
		"": 0, "G": 0, "2": 0, "2T": 0, "-1G": 0, "1.5G": 0, "99999999999G": 0, "0x1G": 0,
	} {
		got, err := parseMemory(text)
		if got != want || (want == 0) != (fault.KindOf(err) == fault.InvalidArgs && err != nil) {
			t.Errorf("parseMemory(%q) = %d, %v", text, got, err)
		}
	}
}

func TestParseShare(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text, path, mount string
		readOnly          bool
	}{
		{"/srv/a:a", "/srv/a", "/mnt/a", false},
		{"/srv/a:a:ro", "/srv/a", "/mnt/a", true},
		{"/srv/a:b:c:ro", "/srv/a:b", "/mnt/c", true},
		{".:work", here, "/mnt/work", false},
		{"x:ro:ro", filepath.Join(here, "x"), "/mnt/ro", true},
		{"/srv/a", "", "", false},
		{"/srv/a:", "", "", false},
		{"/srv/a:ro", "", "", false},
		{":a", "", "", false},
		{"", "", "", false},
	} {
		s, err := parseShare(tc.text)
		if s.Path != tc.path || s.MountPoint != tc.mount || s.ReadOnly != tc.readOnly {
			t.Errorf("parseShare(%q) = %+v", tc.text, s)
		}
		if (tc.path == "") != (err != nil && fault.KindOf(err) == fault.InvalidArgs) {
			t.Errorf("parseShare(%q): %v", tc.text, err)
		}
	}
}

func TestPackRef(t *testing.T) {
	t.Chdir("/srv")
	for text, want := range map[string]config.PackRef{
		"auto": "auto", "alpine-3.24.1-amd64": "alpine-3.24.1-amd64", "./p": "/srv/p", "../p.tar.zst": "/p.tar.zst", "/a//b/": "/a/b", "": "", "A b": "",
	} {
		if got, err := packRef(text); got != want || (want == "") != (err != nil) {
			t.Errorf("packRef(%q) = %q, %v", text, got, err)
		}
	}
}
