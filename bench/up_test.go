//go:build linux

package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
)

// BenchmarkUp compares `up` of a sandbox that is provisioned and stopped, from
// its start to the first byte of a command that is run then, with the floor: see
// BenchmarkBoot.
func BenchmarkUp(b *testing.B) {
	program, arch := build(b), vm.HostArch()
	accel := accelerator(b, arch)
	b.Run(fmt.Sprintf("%s/%s", arch, accel), func(b *testing.B) {
		p := lab.BusyboxPack(b, string(arch))
		b.Setenv(config.HomeVariable, filepath.Join(b.TempDir(), "home"))
		do := func(args ...string) {
			b.Helper()
			if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
		do("config", "set", "pack="+p.Dir, "toolbox=", "network=none", fmt.Sprintf("cpus=%d", cpus), fmt.Sprintf("memoryGB=%d", memoryMB>>10))
		do("up")
		defer do("down", "--daemon")
		initramfs := filepath.Join(b.TempDir(), "initramfs")
		if err := writeFloor(initramfs, arch); err != nil {
			b.Fatal(err)
		}
		var ups, floors []time.Duration
		for range rounds {
			do("down")
			floors = append(floors, floorTime(b, p, initramfs, accel))
			began := time.Now()
			do("up")
			ups = append(ups, firstAnswer(b, program).Sub(began))
		}
		up, least := median(ups), median(floors)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(up.Seconds(), "up-s")
		b.ReportMetric(least.Seconds(), "floor-s")
		b.ReportMetric(up.Seconds()/least.Seconds(), "up/floor")
	})
}

// firstAnswer is when the first byte of a command in the sandbox came.
func firstAnswer(b *testing.B, program string) (came time.Time) {
	b.Helper()
	cmd := exec.Command(program, "exec", "--root", "--", "echo", "up")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, noByte := bufio.NewReader(out).ReadByte()
	came = time.Now()
	if err := cmd.Wait(); err != nil || noByte != nil {
		b.Fatalf("exec: %v, %v\n%s", err, noByte, said.String())
	}
	return came
}
