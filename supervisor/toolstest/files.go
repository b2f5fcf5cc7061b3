package toolstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeFiles writes the files that the calls use into an agent's home.
func writeFiles(t *testing.T, home string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"notes.md":                  "# Notes\n\nBuy milk.\nCall Anna.\nBuy bread.\n",
		"src/a.go":                  "package a\n\nfunc One() {}\n\nfunc Two() {}\n",
		"src/b.go":                  "package a\n\n// one more\nfunc Three() { One() }\n",
		"src/deep/c.py":             "def one():\n    return 1\n",
		"src/.gitignore":            "*.log\n",
		"src/.git/HEAD":             "ref: refs/heads/main\n",
		"src/build.log":             "func Ignored() {}\n",
		"it's $HOME \"quoted\".txt": "a legal name\n",
		"windows.txt":               "first\r\nsecond\r\n",
		"large.txt":                 strings.Repeat("a line of many\n", 40_000),
		"oneline.json":              `{"all":"` + strings.Repeat("x", 20_000) + `"}`,
		"data.txt":                  strings.Repeat("0123456789abcde\n", 9<<20/16),
		"huge.txt":                  strings.Repeat("0123456789abcde\n", 9<<20/16),
		"picture.png":               "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
		"empty":                     "",
		"protected":                 "a\n",
		"secret/keep":               "a\n",
		"locked/inside":             "a\n",
	} {
		path := filepath.Join(home, name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, []byte(text), 0o644))
	}
	for name, text := range recipes() {
		path := filepath.Join(home, "plugins", name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, []byte(text), 0o644))
	}
	for name, to := range map[string]string{"out": "/etc/passwd", "up": "../..", "round": "round"} {
		check(os.Symlink(to, filepath.Join(home, name)))
	}
	check(os.Chmod(filepath.Join(home, "protected"), 0o444))
}
