//go:build linux

package shell_test

import (
	"testing"
	"time"
)

// A question that the shell never hears, for a command took its key, is forgotten with
// the next call.
func TestUnheardQuestions(t *testing.T) {
	r := newRig(t, true)
	r.run("true")
	before := resources(t)
	for range 5 {
		r.want("exec 0<&255; IFS= read -rn 1 key; [[ $key == $'\\x1e' ]]", 0, "")
	}
	r.run("true")
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		after := resources(t)
		if after.files <= before.files && after.goroutines <= before.goroutines {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
	}
}
