//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// world is a daemon with a Debian guest and an agent.
type world struct {
	b       *testing.B
	home    config.Home
	client  *control.Client
	machine *atomic.Pointer[vm.Machine]
	server  *control.Server
	end     func() error // ends the daemon; may be called again
}

// tap is a driver that remembers its last machine.
type tap struct {
	vm.Driver
	last atomic.Pointer[vm.Machine]
}

func (t *tap) New(ctx context.Context, cfg vm.Config) (vm.Machine, error) {
	m, err := t.Driver.New(ctx, cfg)
	if err == nil {
		t.last.Store(&m)
	}
	return m, err
}

func newWorld(b *testing.B) *world {
	b.Helper()
	w := serve(b, newHome(b))
	w.up()
	w.create("alice")
	return w
}

func newHome(b *testing.B) config.Home {
	b.Helper()
	home := config.Home(filepath.Join(b.TempDir(), "home"))
	settings, err := json.Marshal(map[string]any{
		"pack": lab.DebianPack(b).Dir, "toolbox": []string{}, "network": "none", "cpus": cpus, "memoryGB": memoryMB / 1024, "diskGB": 4, "autoStart": false,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := config.WriteFile(home.SettingsFile(), settings); err != nil {
		b.Fatal(err)
	}
	return home
}

// serve is a daemon, whose guest does not run yet.
func serve(b *testing.B, home config.Home) *world {
	b.Helper()
	driver := &tap{Driver: &qemu.Driver{}}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	var server *control.Server
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Home: home, Driver: driver, Ready: func(s *control.Server) {
			server = s
			close(ready)
		}})
	}()
	end := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	b.Cleanup(func() {
		if err := end(); err != nil {
			b.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		b.Fatal(err)
	}
	client, err := control.Connect(b.Context(), home, "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return &world{b: b, home: home, client: client, machine: &driver.last, server: server, end: end}
}

func (w *world) up() {
	w.b.Helper()
	if _, err := w.client.Up(w.b.Context(), &controlpb.MachineRequest{}); err != nil {
		w.b.Fatal(err)
	}
}

func (w *world) create(name string) *controlpb.Agent {
	w.b.Helper()
	r, err := w.client.Agents.Create(w.b.Context(), &controlpb.CreateAgentRequest{Name: name})
	if err != nil {
		w.b.Fatal(err)
	}
	return r.Agent
}

// may has alice use tools that change something.
func (w *world) may() {
	w.b.Helper()
	r := &controlpb.SetAgentRequest{Agent: "alice", Settings: map[string]string{"autonomousExec.enabled": "true", "maxCommandsPerTurn": "1000"}}
	if _, err := w.client.Agents.Set(w.b.Context(), r); err != nil {
		w.b.Fatal(err)
	}
}

// ask has alice call a tool through the control API.
func (w *world) ask(tool, arguments string) {
	w.b.Helper()
	stream, err := w.client.Tools.Call(w.b.Context(), &controlpb.CallToolRequest{Agent: "alice", Tool: tool, Arguments: arguments})
	if err != nil {
		w.b.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if e := stream.Msg().Envelope; e != "" && !strings.HasPrefix(e, `{"ok":true`) {
			w.b.Fatal(e)
		}
	}
	if err := stream.Err(); err != nil {
		w.b.Fatal(err)
	}
}

// root runs a script as root of the guest and returns what it writes.
func (w *world) root(script string) string {
	w.b.Helper()
	var out, errs bytes.Buffer
	p, err := w.client.Run(w.b.Context(), control.RunAs{}, engine.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v: %s", exit, err, errs.String())
	}
	return out.String()
}

func (w *world) run(agent, program string) {
	w.b.Helper()
	p, err := w.client.Run(w.b.Context(), control.RunAs{Agent: agent}, engine.Command{Args: []string{program}})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v", exit, err)
	}
}

// build puts a program of this folder's into the guest's /workspace/shared.
func (w *world) build(name string) {
	w.b.Helper()
	buildInto(w.b, w.home.SharedFolder(), name)
}

// buildInto builds a program of this folder's for guests.
func buildInto(b *testing.B, dir, name string) {
	b.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "osaurus-sandbox/bench/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
}

// dialGuest connects to a program of the guest as soon as it listens.
func dialGuest(m vm.Machine, port uint32) (net.Conn, error) {
	for {
		c, err := m.Dial(context.Background(), port)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// host runs a program of this host.
func (w *world) host(dir string, args ...string) {
	w.b.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		w.b.Fatalf("%v: %v\n%s", args, err, text)
	}
}
