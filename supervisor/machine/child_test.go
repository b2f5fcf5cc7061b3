package machine

import (
	"os/exec"
	"testing"
)

// TestChild checks that release ends the program, and that a missing one harms nobody.
func TestChild(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip(err)
	}
	child("sleep", "1000")() // it would wait for 1000 s
	child("/no/such/program")()
}
