package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/hosttest"
)

// aloneHome, if set, makes the test program a daemon of that home whose guest never
// finishes its boot.
const aloneHome = "OSAURUS_TEST_DAEMON"

func TestMain(m *testing.M) {
	if home := os.Getenv(aloneHome); home != "" {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		err := daemon.Run(ctx, daemon.Options{
			Home: config.Home(home), Backend: &hosttest.Backend{Stuck: true}, Ready: func(*control.Server) { fmt.Println("ready") },
		})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// alone starts a daemon in a process of its own.
func alone(t *testing.T, home config.Home) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), aloneHome+"="+string(home))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this program
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // if it has not ended
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	return cmd.Process
}

// pending makes two calls that do not return, and returns their errors.
func pending(t *testing.T, client *control.Client) <-chan error {
	t.Helper()
	watch, err := client.WatchStatus(t.Context(), &controlpb.WatchStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := client.Up(t.Context(), &controlpb.MachineRequest{})
		ended <- err
	}()
	for watch.Receive() && watch.Msg().Status.State != "starting" {
	}
	go func() {
		for watch.Receive() {
		}
		ended <- watch.Err()
		_ = watch.Close()
	}()
	return ended
}

// Calls to a daemon that is killed or stopped fail with advice.
func TestDaemonThatHangs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		signal syscall.Signal
		within time.Duration
		kind   fault.Kind // of a new call
		advice string
	}{
		{"killed", syscall.SIGKILL, limit, fault.Unavailable, "osaurus-sandbox up"},
		{"stopped", syscall.SIGSTOP, 2 * limit, fault.Timeout, "kill -CONT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			home := newHome(t, "home")
			process := alone(t, home)
			client, err := control.Connect(t.Context(), home, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ended := pending(t, client)
			began := time.Now()
			if err := process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			if tc.signal == syscall.SIGKILL {
				_, _ = process.Wait()
			}
			for err == nil { // a signal takes a moment
				var fresh *control.Client
				if fresh, err = control.Connect(t.Context(), home, "test"); err == nil {
					_, err = fresh.Hello(t.Context())
					fresh.Close()
				}
			}
			if fault.KindOf(err) != tc.kind || !strings.Contains(fault.AdviceOf(err), tc.advice) {
				t.Errorf("a new call: %v (%s), advice: %s", err, fault.KindOf(err), fault.AdviceOf(err))
			}
			if took := time.Since(began); took > 2*limit {
				t.Errorf("a new call was told after %v", took)
			}
			for range cap(ended) {
				select {
				case err := <-ended:
					if kind := fault.KindOf(err); kind != fault.Unavailable && kind != fault.Timeout {
						t.Errorf("a call under way was told %v (%s)", err, kind)
					}
				case <-time.After(tc.within):
					t.Fatalf("a call under way was told nothing for %v", time.Since(began))
				}
			}
			if tc.signal == syscall.SIGSTOP {
				if err := process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if _, err := client.Hello(t.Context()); err != nil {
					t.Errorf("let go, it says %v", err)
				}
			}
		})
	}
}
