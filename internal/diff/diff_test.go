package diff

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiffsApply(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("there is no patch: make setup")
	}
	long := strings.Repeat("line\n", 20)
	for name, tc := range map[string][2]string{
		"in the middle": {long + "old\n" + long, long + "new\nnewer\n" + long}, "at the beginning": {"a\nb\n", "x\nb\n"}, "at the end": {"a\nb\n", "a\n"},
		"without an end": {"a\nb", "a\nc"}, "given an end": {"a\nb", "a\nb\n"}, "taken its end": {"a\nb\n", "a\nb"}, "from nothing": {"", "a\n"}, "to nothing": {"a\nb\n", ""},
		"two places": {"1\n" + long + "2\n", "x\n" + long + "y\n"}, "much": {strings.Repeat("a\nb\n", 2000) + long, long + strings.Repeat("b\nc\n", 2000)},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(file, []byte(tc[0]), 0o644); err != nil {
				t.Fatal(err)
			}
			text := Unified("f", tc[0], tc[1])
			cmd := exec.Command("patch", "--fuzz=0", file)
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.CombinedOutput()
			got, _ := os.ReadFile(file) // patch removes an empty one
			if err != nil || string(got) != tc[1] {
				t.Errorf("%v %s\n%s\n got %q\nwant %q", err, out, text, got, tc[1])
			}
		})
	}
}

// Lines between two changes are shown only near them.
func TestParts(t *testing.T) {
	between := strings.Repeat("line\n", 20)
	const want = "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n line\n line\n line\n@@ -19,4 +19,4 @@\n line\n line\n line\n-2\n+y\n"
	if got := Unified("f", "1\n"+between+"2\n", "x\n"+between+"y\n"); got != want {
		t.Errorf("%s", got)
	}
	if got := Unified("f", between, between); got != "" {
		t.Errorf("%s", got)
	}
}
