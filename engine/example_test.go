package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Group runs commands in a process group, without any isolation.
type Group struct{}

func (Group) Exec(ctx context.Context, c engine.Command) (engine.Process, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append([]string{"PATH=/usr/bin:/bin"}, c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = engine.Linger
	if err := cmd.Start(); err != nil {
		return nil, fault.New(fault.NotFound, "start command", c.Args[0], err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the exit status is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// process implements engine.Process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) PID() int                         { return p.cmd.Process.Pid }
func (p *process) Resize(engine.TerminalSize) error { return errors.ErrUnsupported }
func (p *process) Done() <-chan struct{}            { return p.done }

func (p *process) Signal(_ context.Context, s engine.Signal) error {
	return syscall.Kill(-p.PID(), syscall.Signal(s))
}

func (p *process) Wait() (engine.Exit, error) {
	<-p.done
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return engine.Exit{Signal: engine.HostSignal(status.Signal())}, nil
	}
	return engine.Exit{Code: status.ExitStatus()}, nil
}

func ExampleNewSandbox() {
	sandbox := engine.NewSandbox(func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error) {
		fmt.Println("audit:", tenant)
		return Group{}.Exec(ctx, cmd)
	})
	h, err := sandbox.Start(context.Background(), engine.Request{
		Command:       engine.ShellLine("echo hello; cat; exit 3"),
		WorkspaceRoot: filepath.Clean(os.TempDir()),
		Stdin:         strings.NewReader("world\n"),
		Tenant:        "alice",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	result, err := engine.Collect(context.Background(), h)
	fmt.Printf("%s%d %v\n", result.Stdout, result.Exit.Code, err)
	// Output:
	// audit: alice
	// hello
	// world
	// 3 <nil>
}

// TestGuide checks that the code in docs/spi.md is the code above.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/spi.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```go\n")[1:]
	for _, part := range blocks {
		if block, _, _ := strings.Cut(part, "```"); !strings.Contains(string(code), block) {
			t.Errorf("not in example_test.go:\n%s", block)
		}
	}
	if len(blocks) < 2 {
		t.Errorf("only %d blocks of code found", len(blocks))
	}
}
