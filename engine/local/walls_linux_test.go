package local_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/local"
	"osaurus-sandbox/internal/fault"
)

// run runs a line in a workspace.
func run(t *testing.T, s engine.Sandbox, workspace, line string) engine.Result {
	t.Helper()
	h, err := s.Start(t.Context(), engine.Request{Command: engine.ShellLine(line), WorkspaceRoot: workspace})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	got, err := engine.Collect(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestWalls tries what commands must not be able to do, and what they must.
func TestWalls(t *testing.T) {
	s, _ := newLocal(t, local.Options{})
	workspace, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("the secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "300")
	other.Env = []string{"PASSWORD=the secret"}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	env := fmt.Sprintf("SECRET=%s OUTSIDE=%s OTHER=%d ME=%d; ", secret, outside, other.Process.Pid, os.Getpid())
	for _, c := range []struct{ name, line string }{
		{"read a file", `cat $SECRET`},
		{"read it through a link", `ln -s $SECRET link; cat link`},
		{"read it through /proc", `cat /proc/self/root$SECRET`},
		{"list a folder", `ls $OUTSIDE`},
		{"write a file", `echo new > $OUTSIDE/new`},
		{"overwrite a file", `echo new > $SECRET`},
		{"remove a file", `rm -f $SECRET`},
		{"rename a file", `mv $SECRET $OUTSIDE/other`},
		{"link a file in", `ln $SECRET hard`},
		{"make a folder", `mkdir $OUTSIDE/folder`},
		{"kill another process", `kill -9 $OTHER`},
		{"kill the caller", `kill -9 $ME`},
		{"kill the monitor", `kill -9 $PPID`},
		{"read another's environment", `cat /proc/$OTHER/environ`},
		{"read another's memory", `head -c 1 /proc/$OTHER/mem`},
		{"go through another's root", `ls /proc/$OTHER/root/`},
		{"make a namespace", `unshare -Ur true`},
		{"mount", `unshare -Urm mount -t tmpfs none .`},
		{"become root", `su -c true`},
	} {
		got := run(t, s, workspace, env+c.line)
		if got.Exit.Code == 0 || strings.Contains(string(got.Stdout), "secret") {
			t.Errorf("%s: a command can: %+v, %q", c.name, got.Exit, got.Stdout)
		}
	}
	if err := unix.Kill(other.Process.Pid, 0); err != nil {
		t.Errorf("the other process: %v", err)
	}
	if text, err := os.ReadFile(secret); string(text) != "the secret" {
		t.Errorf("the secret is %q, %v", text, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside are now %v", entries)
	}
	for _, c := range []struct{ name, line string }{
		{"link between folders", `mkdir folder && echo x > file && ln file folder/hard && ln file "$TMPDIR/hard"`},
		{"modes and times", `echo x > program; chmod 755 program; touch -t 200001010000 program`},
		{"a home", `cd && echo x > file`},
		{"devices", `echo > /dev/null && head -c 1 /dev/zero && head -c 1 /dev/urandom`},
		{"pipes", `echo x | cat | grep -q x && cat /dev/stdin < /dev/null`},
		{"signal its own", `sleep 300 & kill $!`},
		{"no descriptors but its own", `[ "$(ls /proc/self/fd | wc -l)" = 4 ]`}, // the fourth is of ls
	} {
		if got := run(t, s, workspace, c.line); got.Exit.Code != 0 {
			t.Errorf("%s: %+v: %s", c.name, got.Exit, got.Stderr)
		}
	}
}

// hostile makes the test program a command that tries forbidden system calls.
const hostile = "OSAURUS_LOCAL_TEST_HOSTILE"

func TestSystemCalls(t *testing.T) {
	if os.Getenv(hostile) != "" {
		attack(t)
		return
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	// A limit of 0 prevents core files but not core collectors. A lower hard limit of the
	// caller stays.
	core := strconv.FormatUint(min(1, mostCore(t)), 10)
	for name, network := range map[string]bool{"without network": false, "with network": true} {
		s, _ := newLocal(t, local.Options{Network: network})
		workspace := t.TempDir()
		program := filepath.Join(workspace, "test") // where a command may read it
		if err := os.WriteFile(program, self, 0o700); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		h, err := s.Start(t.Context(), engine.Request{
			Command: engine.Argv(program, "-test.run=^TestSystemCalls$"), WorkspaceRoot: workspace, Timeout: time.Minute,
			Env: map[string]string{hostile: listener.Addr().String(), "NETWORK": strconv.FormatBool(network), "CORE": core},
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := engine.Collect(t.Context(), h)
		if err != nil || got.Exit.Code != 0 || !strings.Contains(string(got.Stdout), "PASS") {
			t.Errorf("%s: %+v, %v: %s%s", name, got.Exit, err, got.Stdout, got.Stderr)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// attack tries calls that must fail in the sandbox.
func attack(t *testing.T) {
	socket := func(family int) error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	call := func(number uintptr, args ...uintptr) error {
		args = append(args, 0, 0, 0, 0)
		if _, _, e := unix.RawSyscall6(number, args[0], args[1], args[2], args[3], 0, 0); e != 0 {
			return e
		}
		return nil
	}
	for _, c := range []struct {
		name string
		got  error
		want error
	}{
		{"a socket with a path", socket(unix.AF_UNIX), unix.EAFNOSUPPORT},
		{"a socket of VMs", socket(unix.AF_VSOCK), unix.EAFNOSUPPORT},
		{"a socket of packets", socket(unix.AF_PACKET), unix.EAFNOSUPPORT},
		{"clone3", call(unix.SYS_CLONE3), unix.ENOSYS},
		{"a user namespace", unix.Unshare(unix.CLONE_NEWUSER), unix.EPERM},
		{"mount", unix.Mount("none", ".", "tmpfs", 0, ""), unix.EPERM},
		{"ptrace", call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getppid())), unix.EPERM},
		{"bpf", call(unix.SYS_BPF), unix.ENOSYS},
		{"io_uring", call(unix.SYS_IO_URING_SETUP, 1), unix.ENOSYS},
		{"keys", call(unix.SYS_KEYCTL), unix.ENOSYS},
		{"by handle", call(unix.SYS_OPEN_BY_HANDLE_AT), unix.EPERM},
		{"typing for others", call(unix.SYS_IOCTL, 0, unix.TIOCSTI), unix.EPERM},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	_, err := net.DialTimeout("tcp", os.Getenv(hostile), 5*time.Second)
	if (err == nil) != (os.Getenv("NETWORK") == "true") {
		t.Errorf("dialing, with network %s: %v", os.Getenv("NETWORK"), err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("%q is not in its status", want)
		}
	}
	if got, want := mostCore(t), os.Getenv("CORE"); strconv.FormatUint(got, 10) != want {
		t.Errorf("the limit of core files is %d, want %s", got, want)
	}
}

// mostCore returns the hard limit of core files.
func mostCore(t *testing.T) uint64 {
	t.Helper()
	var core syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		t.Fatal(err)
	}
	return core.Max
}

// TestOrdinaryUser repeats the tests that depend on root's rights as another user.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests run as an ordinary user: the others show it")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := atoi(t, nobody.Uid), atoi(t, nobody.Gid)
	// Other users cannot read go's build folder or t.TempDir.
	dir, err := os.MkdirTemp("", "osaurus-local-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "local.test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(temp, 0o700), os.Chown(temp, uid, gid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v",
		"-test.run=^TestSandbox$/^(TimeoutKills|Cancel.*|ReadOnly.*|CloseReleases|NothingRemains|HundredStarts)$|^(TestWalls|TestSystemCalls|TestCallerDies)$", "-test.timeout=15m")
	cmd.Dir, cmd.Env = temp, []string{"TMPDIR=" + temp, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: ") != 14 || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A command ends when its caller is killed.
func TestCallerDies(t *testing.T) {
	if workspace := os.Getenv("OSAURUS_LOCAL_TEST_CALLER"); workspace != "" {
		s, _ := newLocal(t, local.Options{})
		h, err := s.Start(t.Context(), engine.Request{WorkspaceRoot: workspace,
			Command: engine.ShellLine(`(trap '' HUP INT TERM; echo > ticks; while [ -e ticks ] && echo >> ticks; do sleep 0.02; done) & sleep 300`)})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.Exit(t.Context())
		return
	}
	workspace, temp := t.TempDir(), t.TempDir()
	caller := exec.Command("/proc/self/exe", "-test.run=^TestCallerDies$")
	caller.Env = append(os.Environ(), "OSAURUS_LOCAL_TEST_CALLER="+workspace, "TMPDIR="+temp)
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		st, err := os.Stat(filepath.Join(workspace, "ticks"))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	for end := time.Now().Add(30 * time.Second); size() < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command does not run")
		}
	}
	if err := caller.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = caller.Wait()
	for end := time.Now().Add(30 * time.Second); ; {
		before := size()
		time.Sleep(300 * time.Millisecond)
		if size() == before {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the command outlives its caller")
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left, err := os.ReadDir(temp)
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it leaves %v, %v", left, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	if s, err := local.NewUNSAFE(t.Context(), local.Options{}); s != nil || fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("ThisIsUnsafe is not set: %v, %v", s, err)
	}
	s, _ := newLocal(t, local.Options{})
	for name, c := range map[string]struct {
		workspace string
		want      fault.Kind
	}{
		"temporary files below it": {filepath.Dir(os.TempDir() + "/x"), fault.Rejected},
		"a file":                   {"/etc/passwd", fault.NotFound},
	} {
		_, err := s.Start(t.Context(), engine.Request{Command: engine.Argv("true"), WorkspaceRoot: c.workspace})
		if fault.KindOf(err) != c.want || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v, want %s with advice", name, err, c.want)
		}
	}
}

// A fork bomb runs, but ends at the timeout.
func TestForkBombEnds(t *testing.T) {
	workspace := t.TempDir()
	s, _ := newLocal(t, local.Options{})
	h, err := s.Start(t.Context(), engine.Request{WorkspaceRoot: workspace, Timeout: time.Second,
		Command: engine.ShellLine(`f() { [ "$1" -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & setsid sleep 300 & }; wait; sleep 300; }; f 7`)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	exit, err := h.Exit(t.Context())
	if err != nil || !exit.TimedOut {
		t.Errorf("exit %+v, %v", exit, err)
	}
	cwds, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range cwds {
		if dir, _ := os.Readlink(cwd); dir == workspace {
			t.Errorf("%s is left", filepath.Dir(cwd))
		}
	}
}
