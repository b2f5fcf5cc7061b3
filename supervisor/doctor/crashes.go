package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"osaurus-sandbox/vm"
)

// crashAge is how long crash reports are shown.
const crashAge = 7 * 24 * time.Hour

// CrashReports returns the paths of recent crash reports of the daemon, of machines and of Apple's
// framework.
func CrashReports() []string {
	home, _ := os.UserHomeDir() // without one, there is no such folder
	var recent []string
	for _, pattern := range []string{
		filepath.Join(home, "Library/Logs/DiagnosticReports/osaurus-sandbox*.ips"),
		filepath.Join(home, "Library/Logs/DiagnosticReports/com.apple.Virtualization.VirtualMachine*.ips"),
		"/var/lib/systemd/coredump/core.osaurus-sandbox*", "/var/lib/systemd/coredump/core.qemu-system-*",
		"/var/crash/*osaurus-sandbox*.crash", "/var/crash/*qemu-system-*.crash", // Ubuntu
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) < crashAge {
				recent = append(recent, path)
			}
		}
	}
	return recent
}

func checkCrashes() []vm.Finding {
	reports := CrashReports()
	if len(reports) == 0 {
		return nil
	}
	return []vm.Finding{{What: "crash reports", Status: vm.FindingOK, Detail: fmt.Sprintf("%d of the last week, such as %s", len(reports), reports[len(reports)-1])}}
}
