//go:build linux

package pid1

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/printable"
)

// maxFile bounds the size of files that Info reads.
const maxFile = 64 << 10

// Info returns the state of the machine. It does not access a disk, so that it works when a disk
// hangs.
func (m *machine) Info() *guestpb.InfoResponse {
	i := &guestpb.InfoResponse{
		UptimeNanos: int64(uptime()), TimeUnixNano: time.Now().UnixNano(),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		i.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	i.MemoryTotal, i.MemoryAvailable = memory(read("/proc/meminfo"))
	if f := strings.Fields(read("/proc/self/statm")); len(f) > 1 {
		pages, _ := strconv.ParseUint(f[1], 10, 64)
		i.OwnMemory = pages * uint64(os.Getpagesize())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i.OsRelease = m.release
	i.Network, i.NetworkTrouble = m.network, m.networkTrouble
	i.HasData = m.hasData.Load()
	i.Mounts = append(i.Mounts, m.mounts...)
	i.Warnings = append(i.Warnings, m.warnings...)
	return i
}

func read(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b)
}

// memory parses total and available bytes from /proc/meminfo.
func memory(text string) (total, available uint64) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseUint(f[1], 10, 64)
		switch f[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			available = kib << 10
		}
	}
	return total, available
}

// osRelease parses an os-release file.
func osRelease(text string) map[string]string {
	out := map[string]string{}
	for s := bufio.NewScanner(bytes.NewBufferString(text)); s.Scan() && len(out) < protocol.MaxList; {
		name, value, ok := strings.Cut(strings.TrimSpace(s.Text()), "=")
		if !ok || name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		out[name] = printable.Clip(value)
	}
	return out
}
