package doctor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/vm"
)

func findingOf(t *testing.T, r Report, what string) vm.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.What == what {
			return f
		}
	}
	t.Fatalf("no finding %q: %+v", what, r.Findings)
	return vm.Finding{}
}

func examine(home config.Home) Report {
	return Examine(context.Background(), home, func(context.Context, vm.Arch) []vm.Finding { return nil })
}

func TestHome(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	open := filepath.Join(dir, "open")
	for _, err := range []error{os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name   string
		home   string
		status vm.FindingStatus
		fix    string
	}{
		{"not there yet", filepath.Join(dir, "a", "b"), vm.FindingOK, ""},
		{"there", dir, vm.FindingOK, ""},
		{"a file", file, vm.FindingMissing, "OSAURUS_HOME"},
		{"below a file", filepath.Join(file, "a"), vm.FindingMissing, "OSAURUS_HOME"},
		{"open to others", open, vm.FindingMissing, "chmod go-w"},
		{"deeper than a socket may be", filepath.Join(dir, strings.Repeat("d", 100)), vm.FindingOK, ""},
	} {
		f := findingOf(t, examine(config.Home(tc.home)), "home folder")
		if f.Status != tc.status || !strings.Contains(f.Fix, tc.fix) || (tc.fix == "") != (f.Fix == "") {
			t.Errorf("%s: %+v, want %s and %q", tc.name, f, tc.status, tc.fix)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("examining left %v", entries)
	}
}

// TestSettings: findings about the settings file and what it selects.
func TestSettings(t *testing.T) {
	const model = `"inference.baseURL": "http://127.0.0.1:1/v1"`
	for _, tc := range []struct {
		text, what, detail, fix string
		status                  vm.FindingStatus
	}{
		{"", "settings", "defaults", "", vm.FindingOK},
		{`{"cpus": 9}`, "settings", "cpus", "from 1 to 8", vm.FindingMissing},
		{`{}`, "inference", "not set", "", vm.FindingOK},
		{`{` + model + `}`, "inference", "no model is set", "config set", vm.FindingLimited},
		{`{` + model + `, "inference.model": "m"}`, "inference", "m at http://127.0.0.1:1/v1", "", vm.FindingOK},
	} {
		home := config.Home(t.TempDir())
		if tc.text != "" {
			if err := config.WriteFile(home.SettingsFile(), []byte(tc.text)); err != nil {
				t.Fatal(err)
			}
		}
		r := examine(home)
		f := findingOf(t, r, tc.what)
		if f.Status != tc.status || !strings.Contains(f.Detail, tc.detail) || !strings.Contains(f.Fix, tc.fix) || (tc.fix == "") != (f.Fix == "") {
			t.Errorf("%s: %+v", tc.text, f)
		}
		if tc.status == vm.FindingMissing && r.Ready {
			t.Errorf("%s: ready without it", tc.text)
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	t.Setenv(agefile.PassphraseFileVariable, "")
	home := config.Home(t.TempDir())
	want := func(choice string, status vm.FindingStatus, detail, fix string) {
		t.Helper()
		if err := config.WriteFile(home.SettingsFile(), []byte(`{"secrets": "`+choice+`"}`)); err != nil {
			t.Fatal(err)
		}
		r := examine(home)
		f := findingOf(t, r, "secrets")
		if f.Status != status || !strings.Contains(f.Detail, detail) || !strings.Contains(f.Fix, fix) || (fix == "") != (f.Fix == "") {
			t.Errorf("%s: %+v, want %s, %q, %q", choice, f, status, detail, fix)
		}
	}
	want("secret-service", vm.FindingLimited, "not available", "osaurus-sandbox config set secrets=")
	want("file", vm.FindingOK, "weaker", "")
	secret, err := secrets.ParseValue("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := agefile.New(home, nil).Set(t.Context(), secrets.Key{Agent: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "A"}, secret); err != nil {
		t.Fatal(err)
	}
	sealed := []byte("age-encryption.org/v1\n-> scrypt ") // the header shows that it needs a passphrase
	if err := config.WriteFile(home.SecretsKey(), sealed); err != nil {
		t.Fatal(err)
	}
	want("file", vm.FindingLimited, "locked", agefile.PassphraseFileVariable)
}

// The finding names Alpine's host.
func TestAlpinePacks(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	if f := checkAlpinePacks(config.Home(t.TempDir())); f.Status != vm.FindingLimited || !strings.Contains(f.Detail, "alpinelinux.org") || f.Fix == "" {
		t.Errorf("Alpine's host cannot be reached: %+v", f)
	}
}

func TestNoSpace(t *testing.T) {
	// A small file system needs root; /proc has no space at all.
	home := map[string]config.Home{"linux": "/proc/osaurus", "darwin": "/dev/osaurus"}[runtime.GOOS]
	if f := findingOf(t, examine(home), "free disk space"); f.Status != vm.FindingMissing || f.Fix == "" {
		t.Errorf("no space: %+v", f)
	}
}
