package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/timetest"
)

// labHome returns bareHome with the images that tests share.
func labHome(t *testing.T) config.Home {
	t.Helper()
	home := bareHome(t)
	lab.ShareImages(t, home, lab.BusyboxPack(t, "amd64"))
	return home
}

// bareHome returns a home whose pack is small: a real kernel and busybox.
func bareHome(t *testing.T) config.Home {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	t.Setenv(config.HomeVariable, string(home))
	small := lab.BusyboxPack(t, "amd64")
	ok(t, "config", "set", "pack="+small.Dir, "memoryGB=1", "toolbox=")
	return home
}

// bootAs runs boot in this process.
func bootAs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return sandbox(t, append([]string{"boot"}, args...)...)
}

func TestBoot(t *testing.T) {
	home := labHome(t)
	t.Run("streams, shares, exit code, and 50 MB of output", func(t *testing.T) {
		given := make([]byte, 1<<20)
		for i := range given {
			given[i] = byte(rand.Uint32())
		}
		in, out := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(in, "a"), []byte("alpha"), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout := &beginning{of: len(given)}
		var stderr bytes.Buffer
		code := run(t.Context(), console{bytes.NewReader(given), stdout, &stderr}, []string{"boot", "--share", in + ":in:ro", "--share", out + ":out", "--",
			"sh", "-c", "cat; echo to stderr >&2; cat /mnt/in/a > /mnt/out/b && ! echo beta > /mnt/in/a && dd if=/dev/zero bs=1M count=50; exit 37"})
		if code != 37 || !bytes.Equal(stdout.kept, given) || stdout.n != len(given)+50<<20 {
			t.Errorf("exit code %d, %d bytes\n%s", code, stdout.n, &stderr)
		}
		if !strings.Contains(stderr.String(), "to stderr\n") {
			t.Errorf("standard error is %s", &stderr)
		}
		if b, _ := os.ReadFile(filepath.Join(out, "b")); string(b) != "alpha" {
			t.Errorf("what the guest wrote is %q", b)
		}
		if a, _ := os.ReadFile(filepath.Join(in, "a")); string(a) != "alpha" {
			t.Errorf("the read-only file is %q", a)
		}
	})
	t.Run("a share that is not there", func(t *testing.T) {
		code, _, errOut := bootAs(t, "--share", "/no/such:x", "--", "true")
		if code != exitSandbox || !strings.Contains(errOut, "/no/such") || !strings.Contains(errOut, "advice: ") {
			t.Errorf("exit code %d, %s", code, errOut)
		}
	})
	wantNoBoots(t, home)
}

// beginning keeps the first written bytes and counts all.
type beginning struct {
	of   int
	kept []byte
	n    int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.of-len(b.kept))]...)
	b.n += len(p)
	return len(p), nil
}

// program is this program in a process of its own.
type program struct {
	*exec.Cmd
	out io.Reader
	err bytes.Buffer
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, exec.Command(os.Args[0], args...))
}

// startUnderNohup is start under nohup.
func startUnderNohup(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0]}, args...)...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{Cmd: cmd}
	p.Env = append(os.Environ(), asProgram+"=1")
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.Stderr = out, &p.err
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// await waits for a line of the command's output.
func (p *program) await(t *testing.T, line string) {
	t.Helper()
	got := make([]byte, len(line))
	if _, err := io.ReadFull(p.out, got); err != nil || string(got) != line {
		_ = p.Process.Kill()
		_ = p.Wait()
		t.Fatalf("the command wrote %q, %v\n%s", got, err, p.err.String())
	}
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// qemu returns the process id of the program's QEMU.
func (p *program) qemu(t *testing.T) int {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(text)) {
			if name, _ := os.ReadFile("/proc/" + child + "/comm"); strings.HasPrefix(string(name), "qemu") {
				pid, _ := strconv.Atoi(child)
				return pid
			}
		}
	}
	t.Fatal("the program has no QEMU")
	return 0
}

// wantEnd waits until a process has ended.
func wantEnd(t *testing.T, pid int) {
	t.Helper()
	timetest.Eventually(t, "QEMU has ended", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// The first signal goes to the command, except SIGHUP under nohup. The second ends the VM.
func TestBootSignals(t *testing.T) {
	home := labHome(t)
	p := startUnderNohup(t, "boot", "--", "sh", "-c", "trap 'echo again' INT; echo ready; while :; do sleep 0.1; done")
	p.await(t, "ready\n")
	qemu := p.qemu(t)
	p.signal(t, syscall.SIGHUP)
	p.signal(t, syscall.SIGINT)
	p.await(t, "again\n") // two equal signals at once arrive as one
	p.signal(t, syscall.SIGINT)
	_ = p.Wait()
	if code := p.ProcessState.ExitCode(); code != exitInterrupted+int(syscall.SIGINT) {
		t.Errorf("exit code %d\n%s", code, p.err.String())
	}
	wantEnd(t, qemu)
	wantNoBoots(t, home)
}

func TestBootKilledLeavesNoQEMU(t *testing.T) {
	labHome(t)
	p := start(t, "boot", "--", "sh", "-c", "echo ready; sleep 1000")
	p.await(t, "ready\n")
	qemu := p.qemu(t)
	p.signal(t, syscall.SIGKILL)
	_ = p.Wait()
	wantEnd(t, qemu)
}

func wantNoBoots(t *testing.T, home config.Home) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(home.Logs(), "boot-[0-9]*")); err != nil || len(left) > 0 {
		t.Errorf("left in logs: %v, %v", left, err)
	}
}

// writeLine writes the line that the command waits for.
func writeLine(t *testing.T, _ *program, in io.Writer) {
	t.Helper()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
}

// If the VM ends or stops, boot ends with an error that says so.
func TestBootWhoseMachineFails(t *testing.T) {
	labHome(t)
	toQEMU := func(s syscall.Signal) func(*testing.T, *program, io.Writer) {
		return func(t *testing.T, p *program, _ io.Writer) {
			if err := syscall.Kill(p.qemu(t), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name, script string
		fail         func(*testing.T, *program, io.Writer)
		within       time.Duration
		says         string
	}{
		{"QEMU is killed", "echo ready; sleep 1000", toQEMU(syscall.SIGKILL), seenWithin, "signal: killed"},
		{"the kernel panics", "echo ready; read go; echo c > /proc/sysrq-trigger", writeLine, seenWithin, "the guest's kernel panicked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "boot", "--", "sh", "-c", tc.script)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			p := startCommand(t, cmd)
			p.await(t, "ready\n")
			qemu, began := p.qemu(t), time.Now()
			tc.fail(t, p, in)
			_ = p.Wait()
			if code, said := p.ProcessState.ExitCode(), p.err.String(); code != exitLost || !strings.Contains(said, tc.says) || !strings.Contains(said, "advice: ") {
				t.Errorf("exit code %d, %s", code, said)
			}
			if took := time.Since(began); took > tc.within {
				t.Errorf("it took %v", took)
			}
			wantEnd(t, qemu)
		})
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"512M": 512 << 20, "2G": 2 << 30, "1g": 1 << 30, "128m": 128 << 20,
		"": 0, "G": 0, "2": 0, "2T": 0, "-1G": 0, "1.5G": 0, "99999999999G": 0, "0x1G": 0,
	} {
		got, err := parseMemory(text)
		if got != want || (want == 0) != (fault.KindOf(err) == fault.InvalidArgs && err != nil) {
			t.Errorf("parseMemory(%q) = %d, %v", text, got, err)
		}
	}
}

func TestParseShare(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text, path, tag string
		readOnly        bool
	}{
		{"/srv/a:a", "/srv/a", "a", false},
		{"/srv/a:a:ro", "/srv/a", "a", true},
		{"/srv/a:b:c:ro", "/srv/a:b", "c", true},
		{".:work", here, "work", false},
		{"x:ro:ro", filepath.Join(here, "x"), "ro", true},
		{"/srv/a", "", "", false},
		{"/srv/a:", "", "", false},
		{"/srv/a:ro", "", "", false},
		{":a", "", "", false},
		{"", "", "", false},
	} {
		s, err := parseShare(tc.text)
		if s.Path != tc.path || s.Tag != tc.tag || s.ReadOnly != tc.readOnly {
			t.Errorf("parseShare(%q) = %+v", tc.text, s)
		}
		if (tc.path == "") != (err != nil && fault.KindOf(err) == fault.InvalidArgs) {
			t.Errorf("parseShare(%q): %v", tc.text, err)
		}
	}
}

func TestPackRef(t *testing.T) {
	t.Chdir("/srv")
	for text, want := range map[string]config.PackRef{
		"auto": "auto", "alpine-3.24.1-amd64": "alpine-3.24.1-amd64", "./p": "/srv/p", "../p.tar.zst": "/p.tar.zst", "/a//b/": "/a/b", "": "", "A b": "",
	} {
		if got, err := packRef(text); got != want || (want == "") != (err != nil) {
			t.Errorf("packRef(%q) = %q, %v", text, got, err)
		}
	}
}

// A changed byte is refused before the command runs, and the advice repairs it.
func TestChangedImage(t *testing.T) {
	home := bareHome(t)
	buildPackImage(t)
	// The kernel is verified before the start, and the base during it.
	for _, pattern := range []string{"boot/*/vmlinux", "base/*/initfs.ext4"} {
		found, _ := filepath.Glob(filepath.Join(home.Images(), pattern))
		if len(found) != 1 {
			t.Fatalf("%s: %v", pattern, found)
		}
		flip(t, found[0])
		code, out, said := bootAs(t, "--", "echo", "it runs")
		if code != exitSandbox || out != "" || !strings.Contains(said, found[0]) || !strings.Contains(said, "pack build") {
			t.Errorf("boot of a changed %s: exit code %d, %q\n%s", found[0], code, out, said)
		}
		buildPackImage(t)
	}
	// A repaired image boots.
	if code, _, said := bootAs(t, "--", "no-such-command"); code != exitNoCommand || !strings.Contains(said, "no-such-command") {
		t.Errorf("boot of what was repaired: exit code %d\n%s", code, said)
	}
	wantNoBoots(t, home)
}

// buildPackImage builds or repairs the image.
func buildPackImage(t *testing.T) {
	t.Helper()
	if code, _, said := sandbox(t, "pack", "build"); code != 0 {
		t.Fatalf("pack build: exit code %d\n%s", code, said)
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
