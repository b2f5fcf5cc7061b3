package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/doctor"
)

func TestDoctor(t *testing.T) {
	t.Setenv(config.HomeVariable, filepath.Join(t.TempDir(), "home"))
	code, out, said := sandbox(t, "doctor", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Ready || len(r.Findings) == 0 {
		t.Errorf("doctor --json: %d, %v\n%s%s", code, err, out, said)
	}

	bin := t.TempDir()
	for _, machine := range []string{"x86_64", "aarch64"} {
		if err := os.WriteFile(filepath.Join(bin, "qemu-system-"+machine), []byte("#!/bin/sh\necho QEMU emulator version 5.2.0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "linux" {
		return // QEMU is not what runs machines here
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	code, out, said = sandbox(t, "doctor")
	if code != fault.ExitUnavailable || !strings.Contains(out, "version 5.2 is too old") || !strings.Contains(out, "fix: ") || !strings.Contains(said, "setup is required") {
		t.Errorf("doctor with an old QEMU: %d\n%s%s", code, out, said)
	}
}
