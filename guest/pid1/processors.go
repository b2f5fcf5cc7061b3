//go:build linux

package pid1

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// startProcessors starts those that the kernel was told to leave alone while it
// boots (maxcpus=), and lets this process use them.
func startProcessors(warn func(what string, err error)) {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu*/online")
	for _, f := range files {
		if strings.TrimSpace(read(f)) != "0" {
			continue
		}
		if err := os.WriteFile(f, []byte("1"), 0); err != nil {
			warn("start "+filepath.Base(filepath.Dir(f)), err)
		}
	}
	runtime.SetDefaultGOMAXPROCS()
}
