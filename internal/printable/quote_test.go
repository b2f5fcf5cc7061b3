package printable_test

import (
	"os/exec"
	"testing"

	"osaurus-sandbox/internal/printable"
)

// A shell reads the words back as they were.
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "plain", "it's", "''", `\'`, "$HOME `id` $(id)", "a b\tc\nd", "*?[x]{1,2}~", `"!&|;<>#`, "ä\xff"} {
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+printable.Quote(text)+" "+printable.Quote("next")).Output()
		if want := "<" + text + "><next>"; err != nil || string(out) != want {
			t.Errorf("%q came back as %q, %v", text, out, err)
		}
	}
}
