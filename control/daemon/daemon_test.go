package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/hosttest"
)

// limit is when a step of a test counts as hanging.
const limit = 30 * time.Second

func newHome(t *testing.T, name string) config.Home {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), name))
	if _, err := home.Make(string(home)); err != nil {
		t.Fatal(err)
	}
	if err := config.Edit(home, func(f *config.File) error { return f.Set("autoStart", "false") }); err != nil {
		t.Fatal(err)
	}
	return home
}

// serve runs a daemon with a fake machine until the test ends, or end is called.
func serve(t *testing.T, o daemon.Options) (client *control.Client, end func() error) {
	t.Helper()
	if o.Home == "" {
		o.Home = newHome(t, "home")
	}
	if o.Backend == nil {
		o.Backend = &hosttest.Backend{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	also := o.Ready
	o.Ready = func(s *control.Server) {
		if also != nil {
			also(s)
		}
		close(ready)
	}
	go func() { ended <- daemon.Run(ctx, o) }()
	end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(limit):
			return errors.New("the daemon does not end")
		}
	})
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		ended <- nil
		t.Fatal(err)
	case <-time.After(limit):
		t.Fatal("the daemon does not start")
	}
	client, err := control.Connect(t.Context(), o.Home, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, end
}

func TestLife(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	up, err := client.Up(t.Context(), &controlpb.MachineRequest{})
	if err != nil || up.Status.State != "running" || !strings.Contains(up.Status.Cause, "test") {
		t.Fatalf("%v %v", up, err)
	}
	down, err := client.Down(t.Context(), &controlpb.MachineRequest{})
	if err != nil || down.Status.State != "stopped" {
		t.Fatalf("%v %v", down, err)
	}
	provisioned, err := client.Provision(t.Context(), &controlpb.MachineRequest{})
	if err != nil || provisioned.Status.State != "running" {
		t.Errorf("%v %v", provisioned, err)
	}
}

// With AtRest the daemon does not start the guest.
func TestAtRest(t *testing.T) {
	for _, rest := range []bool{true, false} {
		home := newHome(t, "home")
		if err := config.Edit(home, func(f *config.File) error { return f.Set("autoStart", "true") }); err != nil {
			t.Fatal(err)
		}
		client, _ := serve(t, daemon.Options{Home: home, AtRest: rest, Backend: &hosttest.Backend{Stuck: true}})
		s, err := client.Status(t.Context(), &controlpb.StatusRequest{})
		if err != nil || (s.Status.State == "stopped") != rest {
			t.Errorf("at rest %v: %v, %v", rest, s, err)
		}
	}
}

func TestExec(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	in := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var out, errOut bytes.Buffer
	p, err := client.Run(t.Context(), control.RunAs{}, engine.Command{Args: []string{"sh", "-c", "cat; echo to stderr >&2; exit 37"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 37 || !bytes.Equal(out.Bytes(), in) || errOut.String() != "to stderr\n" {
		t.Errorf("%v %v, %d bytes, %q", exit, err, out.Len(), errOut.String())
	}
	if _, err := client.Run(t.Context(), control.RunAs{}, engine.Command{Args: []string{"no-such-program"}}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("no such program: %v", err)
	}
}

func TestHomes(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 150), "with some spaces", "mit Käse, 気持ち", `"'$HOME\%s;`} {
		t.Run(name, func(t *testing.T) {
			home := newHome(t, name)
			client, end := serve(t, daemon.Options{Home: home})
			hello, err := client.Hello(t.Context())
			if err != nil || hello.Home != string(home) || hello.Pid != int32(os.Getpid()) {
				t.Fatalf("%v %v", hello, err)
			}
			path, err := control.Socket(home)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the socket is %v, %v", info, err)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("its folder is %v, %v", info, err)
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket stays: %v", err)
			}
			if dir := filepath.Dir(path); dir != home.Run() {
				if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("its folder stays: %v", err)
				}
			}
			if _, err := control.Connect(t.Context(), home, "test"); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("%v", err)
			}
		})
	}
}

// A daemon replaces the socket of one that was killed.
func TestStaleSocket(t *testing.T) {
	for _, name := range []string{"home", strings.Repeat("y", 150)} {
		home := newHome(t, name)
		if _, err := home.Make(home.Run()); err != nil {
			t.Fatal(err)
		}
		left := filepath.Join(home.Run(), "sandbox.sock")
		if name == "home" {
			if err := os.WriteFile(left, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Symlink(filepath.Join(t.TempDir(), "gone", "sandbox.sock"), left); err != nil {
			t.Fatal(err)
		}
		client, _ := serve(t, daemon.Options{Home: home})
		if _, err := client.Hello(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVersions(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	for _, tc := range []struct {
		min, max uint32
		kind     fault.Kind
	}{{1, 1, ""}, {0, 9, ""}, {2, 9, fault.Rejected}, {0, 0, fault.Rejected}} {
		_, err := client.SandboxClient.Hello(t.Context(), &controlpb.HelloRequest{VersionMin: tc.min, VersionMax: tc.max})
		if (err != nil) != (tc.kind != "") || err != nil && fault.KindOf(err) != tc.kind {
			t.Errorf("%d–%d: %v", tc.min, tc.max, err)
		}
		if tc.min == 2 && !strings.Contains(fault.AdviceOf(err), "down --daemon") {
			t.Errorf("advice: %q", fault.AdviceOf(err))
		}
	}
}

func TestQuit(t *testing.T) {
	home := newHome(t, "home")
	client, end := serve(t, daemon.Options{Home: home})
	watch, err := client.WatchStatus(t.Context(), &controlpb.WatchStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	running, err := client.Run(t.Context(), control.RunAs{}, engine.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Quit(t.Context(), &controlpb.QuitRequest{}); err != nil {
		t.Fatal(err)
	}
	for watch.Receive() {
	}
	if fault.KindOf(watch.Err()) != fault.Unavailable {
		t.Errorf("a watcher got %v", watch.Err())
	}
	select {
	case <-running.Done():
	case <-time.After(limit):
		t.Error("the command goes on")
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestLogs(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	stream, err := client.Logs(t.Context(), &controlpb.LogsRequest{Follow: true, Source: "daemon"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	await := func(text string) {
		t.Helper()
		for stream.Receive() {
			if strings.Contains(stream.Msg().Text, text) {
				if stream.Msg().Time == nil {
					t.Errorf("no time: %v", stream.Msg())
				}
				return
			}
		}
		t.Fatalf("no %q: %v", text, stream.Err())
	}
	await("the daemon serves")
	if _, err := client.Up(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	await("to=running")
}
