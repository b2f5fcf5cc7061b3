package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShell: a recipe ends at its first failure, also with macOS's make 3.81, which ignores
// .SHELLFLAGS.
func TestShell(t *testing.T) {
	if text := read(t, "Makefile"); !strings.Contains(text, "SHELL       := scripts/shell\n") || strings.Contains(text, ".SHELLFLAGS") || strings.Contains(text, ".ONESHELL") {
		t.Error("the Makefile needs what make 3.81 does not have")
	}
	for command, want := range map[string]bool{"true": true, "false; true": false, "false | true": false, "echo $unset_variable": false} {
		if err := exec.Command(filepath.Join(root, "scripts/shell"), "-c", command).Run(); (err == nil) != want {
			t.Errorf("%q: %v", command, err)
		}
	}
}

// TestSign runs scripts/sign with programs in place of Apple's, which print what they are given.
func TestSign(t *testing.T) {
	const hash = "0123456789012345678901234567890123456789"
	identities := map[string]string{
		"none": "     0 valid identities found\n",
		"own":  "  1) " + hash + " \"My Own Certificate\"\n     1 valid identities found\n",
		"free": "  1) " + hash + " \"Apple Development: a@b.c (TEAM123456)\"\n     1 valid identities found\n",
		"both": "  1) " + hash + " \"Apple Development: a@b.c (TEAM123456)\"\n  2) " + hash + " \"Developer ID Application: A B (TEAM123456)\"\n",
	}
	for _, c := range []struct{ has, as, want, not string }{
		{"none", "", "--sign - program", "--timestamp"},
		{"own", "", "--sign - program", "--timestamp"},
		{"free", "", "--sign Apple Development: a@b.c (TEAM123456) program", "--timestamp"},
		{"both", "", "--options runtime --timestamp --identifier ai.osaurus.sandbox", "Apple Development"},
		{"both", "-", "--sign - program", "Developer ID"},
		{"none", "My Own Certificate", "--sign My Own Certificate program", "--timestamp"},
	} {
		bin := t.TempDir()
		for name, text := range map[string]string{"security": "cat <<'E'\n" + identities[c.has] + "E", "codesign": `echo "$*"`} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(filepath.Join(root, "scripts/sign"), "program")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SIGN_AS="+c.as)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), c.not) {
			t.Errorf("with %s and SIGN_AS=%q: %v, %s", c.has, c.as, err, out)
		}
	}
}

// TestFirstMac runs scripts/first-mac with programs in place of a Mac's. It goes on after
// failures, takes names and paths out, and ends with what to send.
func TestFirstMac(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{"first-mac", "on-a-mac"} {
		file := filepath.Join(dir, "scripts", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(read(t, "scripts/"+name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const program = "case $1 in boot) exit 1;; esac\necho \"$1 of $(id -un) in $HOME\""
	fakes := map[string]string{"uname": "echo Darwin", "xcrun": "", "go": "echo arm64", "osaurus-sandbox": program}
	for _, name := range []string{"sw_vers", "sysctl", "git", "codesign", "pmset", "tmutil", "launchctl", "hostname", "pgrep"} {
		fakes[name] = "echo " + name + "-said"
	}
	for name, text := range fakes {
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "scripts/first-mac"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "FIRST_MAC_KILLS=1", "OSAURUS_PROGRAM="+filepath.Join(bin, "osaurus-sandbox"))
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("it passes although no guest boots:\n%s", out)
	}
	b, err := os.ReadFile(filepath.Join(dir, ".build/first-mac.txt"))
	report := string(b)
	if err != nil || strings.Contains(report, home) || strings.Contains(report, dir) {
		t.Errorf("%v, it says where it ran:\n%s", err, report)
	}
	for _, want := range []string{
		"== doctor: passed", "== boot: FAILED", "doctor of USER in HOME", "== diagnose: passed", "== sleep: not tried", "== kills: FAILED", "== status: passed",
		"failed: boot exit-code", "Please send", "DiagnosticReports",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in:\n%s", want, report)
		}
	}
}
