package child_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/child"
)

const asCrasher = "OSAURUS_TEST_CRASHER"

// crasher ends its process as a framework's exception does.
type crasher struct{ vm.Driver }

func (crasher) New(ctx context.Context, _ vm.Config) (vm.Machine, error) {
	err := unix.Kill(os.Getpid(), unix.SIGABRT)
	<-ctx.Done()
	return nil, err
}

// A child that crashes ends by the signal: macOS writes a crash report for no other end.
func TestCrashEndsBySignal(t *testing.T) {
	if os.Getenv(asCrasher) != "" {
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
			t.Fatal(err)
		}
		t.Fatal(child.Serve(crasher{}))
	}
	var cmd *exec.Cmd
	d := &child.Driver{Command: func() *exec.Cmd {
		cmd = exec.Command(os.Args[0], "-test.run=^TestCrashEndsBySignal$")
		cmd.Env = append(os.Environ(), asCrasher+"=1")
		return cmd
	}}
	if _, err := d.New(t.Context(), vm.Config{Name: "crash"}); err == nil {
		t.Fatal("the child did not crash")
	}
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGABRT {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
