//go:build linux

package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/bench/floor"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/qemu"
)

// rounds is how often each side is measured. The sides take turns, since a
// host's other load comes and goes, and the median of each counts.
const rounds = 7

// The machine that boots, on both sides of the comparison.
const (
	cpus     = 2
	memoryMB = 2048
)

// BenchmarkBoot compares a boot, from the start of the program to the first
// byte of the command's output, with the floor: the same QEMU, kernel and
// machine type, and a first program that powers off at once.
func BenchmarkBoot(b *testing.B) {
	program := build(b)
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		accel := accelerator(b, arch)
		b.Run(fmt.Sprintf("%s/%s", arch, accel), func(b *testing.B) {
			p := lab.BusyboxPack(b, string(arch))
			b.Setenv(config.HomeVariable, filepath.Join(b.TempDir(), "home"))
			firstByte(b, program, p) // builds the image
			initramfs := filepath.Join(b.TempDir(), "initramfs")
			if err := writeFloor(initramfs, arch); err != nil {
				b.Fatal(err)
			}
			var boots, floors []time.Duration
			for range rounds {
				floors = append(floors, floorTime(b, p, initramfs, accel))
				boots = append(boots, firstByte(b, program, p))
			}
			boot, least := median(boots), median(floors)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(boot.Seconds(), "boot-s")
			b.ReportMetric(least.Seconds(), "floor-s")
			b.ReportMetric(boot.Seconds()/least.Seconds(), "boot/floor")
		})
	}
}

// build builds the program as a user gets it.
func build(b *testing.B) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "osaurus-sandbox")
	if text, err := exec.Command("go", "build", "-trimpath", "-o", out, "osaurus-sandbox/cmd/osaurus-sandbox").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	return out
}

// firstByte is how long a boot takes to the first byte of its command.
func firstByte(b *testing.B, program string, p pack.Pack) time.Duration {
	b.Helper()
	cmd := exec.Command(program, "boot", "--pack", p.Dir, "--arch", string(p.Manifest.Arch),
		"--cpus", fmt.Sprint(cpus), "--memory", fmt.Sprintf("%dM", memoryMB), "--", "echo", "up")
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // not to outlive a run that is killed
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, noByte := bufio.NewReader(out).ReadByte()
	took := time.Since(began)
	if err := cmd.Wait(); err != nil || noByte != nil {
		b.Fatalf("boot: %v, %v\n%s", err, noByte, said.String())
	}
	return took
}

func writeFloor(path string, arch vm.Arch) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return floor.WriteInitramfs(f, arch)
}

// accelerator returns how this host runs guests of an architecture.
func accelerator(b *testing.B, arch vm.Arch) string {
	can, err := new(qemu.Driver).Capabilities(b.Context(), arch)
	if err != nil {
		b.Fatal(err)
	}
	return can.Accelerator
}

// floorTime is how long QEMU runs until its guest has powered off.
func floorTime(b *testing.B, p pack.Pack, initramfs, accel string) time.Duration {
	b.Helper()
	name, machine, cpu, console := "qemu-system-x86_64", "q35", "max,la57=off,erms=off,fsrm=off", "ttyS0"
	if p.Manifest.Arch == vm.ARM64 {
		name, machine, cpu, console = "qemu-system-aarch64", "virt,gic-version=max", "cortex-a57", "ttyAMA0"
	}
	speed := "tcg,thread=multi"
	if accel == qemu.KVM {
		cpu, speed = "host", "kvm"
	}
	cmd := exec.Command(name, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", machine, "-cpu", cpu, "-accel", speed, "-smp", fmt.Sprint(cpus), "-m", fmt.Sprint(memoryMB),
		"-kernel", p.Path(p.Manifest.Kernel), "-initrd", initramfs, "-append", "quiet panic=-1 console="+console, "-serial", "stdio")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	said, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil || bytes.Contains(said, []byte("panic")) {
		b.Fatalf("floor: %v\n%s", err, said)
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
