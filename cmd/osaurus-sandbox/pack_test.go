package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
)

func TestPack(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	t.Setenv(config.HomeVariable, string(home))
	small := lab.BusyboxPack(t, "amd64")
	name := small.Manifest.Name
	file := filepath.Join(t.TempDir(), "small.tar.zst")

	expect := func(code int, stdout string, args ...string) (stderr string) {
		t.Helper()
		got, out, errOut := sandbox(t, append([]string{"pack"}, args...)...)
		if got != code || !strings.Contains(out, stdout) {
			t.Fatalf("pack %s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), got, code, out, errOut)
		}
		return errOut
	}
	expect(exitOK, "[]", "list", "--json")
	expect(fault.ExitNotFound, "", "show", name)
	expect(exitOK, "", "export", small.Dir, file)
	expect(exitOK, name, "import", file)
	expect(exitOK, name+"  busybox", "list")
	expect(exitOK, `"name": "`+name+`"`, "show", name)
	expect(exitOK, name+" is whole", "verify")
	expect(exitOK, "", "export", name, file)
	expect(exitOK, `"`+name+`"`, "verify", "--json")

	_, out, _ := sandbox(t, "pack", "list", "--json")
	var listed struct{ Packs []struct{ Name, Arch string } }
	if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed.Packs) != 1 || listed.Packs[0].Arch != "amd64" {
		t.Errorf("pack list --json: %v, %s", err, out)
	}

	kernel := filepath.Join(home.Packs(), name, "kernel")
	data, err := os.ReadFile(kernel)
	if err != nil {
		t.Fatal(err)
	}
	was := small.Manifest.Kernel.SHA256.String()
	data[len(data)/2] ^= 1
	if err := os.WriteFile(kernel, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := expect(fault.ExitRejected, "", "verify", name); !strings.Contains(said, kernel) || !strings.Contains(said, was) || !strings.Contains(said, "advice: ") {
		t.Errorf("a flipped byte: %s", said)
	}
	expect(fault.ExitRejected, "", "export", name, filepath.Join(t.TempDir(), "bad.tar.zst"))
	iso := filepath.Join(t.TempDir(), "alpine-virt-3.24.1-aarch64.iso")
	if err := os.WriteFile(iso, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", iso}, {"verify", iso, "--json"}} {
		if said := expect(fault.ExitRejected, "", args...); !strings.Contains(said, "but 92743680 are pinned for alpine-virt-3.24.1-aarch64.iso") {
			t.Errorf("not an ISO image: %s", said)
		}
	}
	expect(exitOK, "", "remove", name)
	expect(exitOK, "[]", "list", "--json")
	expect(fault.ExitNotFound, "", "remove", name)

	t.Setenv(config.HomeVariable, filepath.Join(t.TempDir(), "home"))
	expect(exitOK, name, "import", file)
	expect(exitOK, name+" is whole", "verify", name)
	expect(fault.ExitNotFound, "", "build", "gentoo")
	expect(fault.ExitInvalidArgs, "", "build", "--arch", "mips")
}
