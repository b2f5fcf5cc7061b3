package autostart

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
)

// systemd accepts the unit, and finds the program in spite of its name.
func TestSystemd(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("*** NOT TRIED: this host has no systemd-analyze")
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	program := filepath.Join(t.TempDir(), "a program; 100% mit $KÄSE")
	verify := func() ([]byte, error) {
		file := filepath.Join(t.TempDir(), "sandbox.service")
		if err := os.WriteFile(file, Service{home: config.Home(awkward), program: program, manager: systemd}.description(), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command("systemd-analyze", "--user", "verify", file).CombinedOutput()
	}
	if out, err := verify(); err == nil {
		t.Errorf("a program that is missing is accepted: %s", out)
	}
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := verify(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v, %s", err, out)
	}
}
