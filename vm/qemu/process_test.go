//go:build linux

package qemu_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
)

// ownerEnv makes the test binary start a machine with the configuration in its value.
const ownerEnv = "OSAURUS_TEST_OWNER"

func TestMain(m *testing.M) {
	if cfg := os.Getenv(ownerEnv); cfg != "" {
		if err := own([]byte(cfg)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// own starts a machine, prints QEMU's process id, and waits to be killed.
func own(config []byte) error {
	var cfg vm.Config
	if err := json.Unmarshal(config, &cfg); err != nil {
		return err
	}
	m, err := new(qemu.Driver).New(context.Background(), cfg)
	if err != nil {
		return err
	}
	if err := m.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println(qemu.PID(m))
	<-m.Done()
	return m.Err()
}

func TestQEMUEndsWithOwner(t *testing.T) {
	cfg, err := json.Marshal(vmtest.BuildImage(t, vm.AMD64).Config(t))
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+string(cfg))
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer owner.Wait()
	defer owner.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !lives(pid) {
		t.Fatal("QEMU does not run")
	}
	defer func() {
		if lives(pid) { // after a failure
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	if err := owner.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "QEMU has ended with its owner", func() bool { return !lives(pid) })
}

// lives reports whether a process exists and is not a zombie.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func started(t *testing.T, cfg vm.Config) (*vmtest.Guest, int) {
	t.Helper()
	g := vmtest.New(t, &qemu.Driver{}, cfg)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, qemu.PID(g.Machine)
}

func TestQEMUConfined(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "a secret of the host")
	_, pid := started(t, vmtest.BuildImage(t, vm.AMD64).Config(t))
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || string(env) != "LC_ALL=C\x00" {
		t.Errorf("QEMU's environment is %q, %v", env, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !bytes.Contains(status, []byte(want)) {
			t.Errorf("QEMU's status lacks %q", want)
		}
	}
}

func TestQEMUKilled(t *testing.T) {
	g, pid := started(t, vmtest.BuildImage(t, vm.AMD64).Config(t))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the machine does not notice that QEMU was killed")
	}
	if err := g.Err(); fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "signal: killed") || fault.AdviceOf(err) == "" {
		t.Errorf("Err = %v", err)
	}
	if s := g.State(); s != vm.Failed {
		t.Errorf("State = %s", s)
	}
}

func TestQEMUFrozen(t *testing.T) {
	g, pid := started(t, vmtest.BuildImage(t, vm.AMD64).Config(t))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := g.RequestStop(ctx); fault.KindOf(err) != fault.Timeout || fault.AdviceOf(err) == "" {
		t.Errorf("RequestStop = %v, want a timeout with advice", err)
	}
	if err := g.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// A panic must be reported even if the kernel has no driver for its console yet.
func TestEarlyPanic(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		t.Run(string(arch), func(t *testing.T) {
			cfg := vmtest.BuildImage(t, arch).Config(t)
			cfg.Initrd = ""
			g, _ := started(t, cfg)
			select {
			case <-g.Done():
			case <-time.After(vmtest.BootTimeout):
				t.Fatal("the machine has not ended")
			}
			if err := g.Err(); fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "Unable to mount root") {
				t.Errorf("Err = %v", err)
			}
		})
	}
}

func TestMaxCPUs(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		cfg := vmtest.BuildImage(t, arch).Config(t)
		cfg.CPUs = vm.MaxCPUs
		g, _ := started(t, cfg)
		if err := g.Close(); err != nil { // now, since it has many threads
			t.Error(err)
		}
	}
}

func TestQEMURefuses(t *testing.T) {
	cfg := vmtest.BuildImage(t, vm.AMD64).Config(t)
	disk := t.TempDir() + "/disk"
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Disks = []vm.Disk{{Path: disk}}
	started(t, cfg)
	cfg.ConsoleLog = ""
	second := vmtest.New(t, &qemu.Driver{}, cfg)
	err := second.Start(t.Context())
	if fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "lock") || fault.AdviceOf(err) == "" {
		t.Errorf("a second machine on one writable disk: %v, want QEMU's own words", err)
	}
	if second.State() != vm.Failed || !errors.Is(second.Err(), err) {
		t.Errorf("after that it is %s: %v", second.State(), second.Err())
	}
}
