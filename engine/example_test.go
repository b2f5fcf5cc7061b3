package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Group runs commands in a process group, with no walls at all.
type Group struct{}

func (Group) Start(ctx context.Context, req engine.Request) (engine.Handle, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap("start command", "", err)
	}
	args := req.Command.Args
	if req.Command.Line != "" {
		args = []string{"/bin/sh", "-c", req.Command.Line}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = req.WorkspaceRoot, []string{"PATH=/usr/bin:/bin"}
	for name, value := range req.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	live, err := begin(cmd, req)
	if err != nil {
		return nil, fault.New(fault.NotFound, "start program", args[0], err)
	}
	return live, nil
}

func begin(cmd *exec.Cmd, req engine.Request) (*engine.Live, error) {
	stdin, e1 := cmd.StdinPipe()
	stdout, e2 := cmd.StdoutPipe()
	stderr, e3 := cmd.StderrPipe()
	if err := errors.Join(e1, e2, e3, cmd.Start()); err != nil {
		return nil, err
	}
	live := engine.NewLive(req, &group{cmd.Process.Pid}) // its timeout begins
	live.Feed(stdin)
	var streams sync.WaitGroup
	streams.Go(func() { _, _ = io.Copy(live.Stdout(), stdout) })
	streams.Go(func() { _, _ = io.Copy(live.Stderr(), stderr) })
	go func() {
		streams.Wait()
		_ = cmd.Wait() // how it ended is in its ProcessState
		live.End(exitOf(cmd), nil)
	}()
	return live, nil
}

func exitOf(cmd *exec.Cmd) engine.ExitStatus {
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return engine.ExitStatus{Code: engine.NoCode, Signal: fmt.Sprint(int(status.Signal()))}
	}
	return engine.ExitStatus{Code: status.ExitStatus()}
}

// group is what can be done to a command.
type group struct{ id int }

func (g *group) Terminate() { g.signal(syscall.SIGTERM) }
func (g *group) Kill()      { g.signal(syscall.SIGKILL) }

// Release has nothing to free: the process is gone.
func (g *group) Release() error { return nil }

func (g *group) signal(s syscall.Signal) { _ = syscall.Kill(-g.id, s) }

func ExampleLive() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	h, err := Group{}.Start(context.Background(), engine.Request{
		Command:       engine.ShellLine("echo hello; cat; exit 3"),
		WorkspaceRoot: dir,
		Stdin:         strings.NewReader("world\n"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	result, err := engine.Collect(context.Background(), h)
	fmt.Printf("%s%+v %v\n", result.Stdout, result.Exit.Code, err)
	// Output:
	// hello
	// world
	// 3 <nil>
}

// What the guide shows is what was compiled.
func TestGuideShowsThisCode(t *testing.T) {
	guide, err := os.ReadFile("../docs/spi.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var blocks int
	for _, part := range strings.Split(string(guide), "```go\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		if blocks++; !strings.Contains(string(code), block) {
			t.Errorf("not in example_test.go:\n%s", block)
		}
	}
	if blocks < 2 {
		t.Errorf("only %d blocks of code found", blocks)
	}
}
