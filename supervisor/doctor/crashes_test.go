package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCrashReports(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	before := len(checkCrashes()) // of the system that runs this test
	dir := filepath.Join(home, "Library/Logs/DiagnosticReports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"osaurus-sandbox-new.ips": time.Hour, "osaurus-sandbox-old.ips": 30 * 24 * time.Hour, "Safari-new.ips": time.Hour} {
		at := time.Now().Add(-age)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	mine := slices.DeleteFunc(CrashReports(), func(path string) bool { return !strings.HasPrefix(path, home) })
	if want := []string{filepath.Join(dir, "osaurus-sandbox-new.ips")}; !slices.Equal(mine, want) {
		t.Errorf("CrashReports = %q, want %q", mine, want)
	}
	if found := checkCrashes(); len(found) != 1 || before == 0 && !strings.Contains(found[0].Detail, mine[0]) {
		t.Errorf("doctor says %+v", found)
	}
}
