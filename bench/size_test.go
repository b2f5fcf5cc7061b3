//go:build linux

package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
)

// rest is how long nothing happens before it is measured.
const rest = 3 * time.Second

// BenchmarkResident measures the resident memory of the host's program, with a
// network and a share, and of osaurus-guest, while the guest is at rest.
func BenchmarkResident(b *testing.B) {
	program := build(b)
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		b.Run(fmt.Sprintf("%s/%s", arch, accelerator(b, arch)), func(b *testing.B) {
			p := lab.BusyboxPack(b, string(arch))
			b.Setenv(config.HomeVariable, filepath.Join(b.TempDir(), "home"))
			firstByte(b, program, p) // builds the image, which is not rest
			cmd := exec.Command(program, "boot", "--pack", p.Dir, "--arch", string(arch), "--network", "--share", b.TempDir()+":share", "--",
				"sh", "-c", fmt.Sprintf("sleep %.0f; cat /proc/1/status; echo; cat", rest.Seconds()))
			var said bytes.Buffer
			cmd.Stderr = &said
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			in, err := cmd.StdinPipe() // until it is closed, the guest stays
			if err != nil {
				b.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			var status strings.Builder
			for lines.Scan() && lines.Text() != "" {
				fmt.Fprintln(&status, lines.Text())
			}
			host, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			if err != nil {
				b.Fatal(err)
			}
			in.Close()
			if err := cmd.Wait(); err != nil {
				b.Fatalf("boot: %v\n%s", err, said.String())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(resident(b, string(host)), "host-MiB")
			b.ReportMetric(resident(b, status.String()), "guest-MiB")
		})
	}
}

// resident is VmRSS of a /proc/PID/status, in MiB.
func resident(b *testing.B, status string) float64 {
	b.Helper()
	for line := range strings.Lines(status) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatalf("no VmRSS in %q", status)
	return 0
}
