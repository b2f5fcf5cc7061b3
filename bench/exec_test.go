//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/bench/floor"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

const (
	execTurns   = 15 // of each side
	execPerTurn = 4  // in a row: a side that was just left is cold
	sshPort     = 2222
	staticTrue  = "/usr/local/bin/static-true"
)

// BenchmarkExec compares a command as an agent in a warm room, through the
// control API, with the same over a kept-open connection to an sshd in the same
// guest, and with no more than starting the program there. And a new agent with
// its first command is compared with a command.
func BenchmarkExec(b *testing.B) {
	w := newExecWorld(b)
	for _, program := range []string{"/bin/true", staticTrue} {
		var api, ssh, fork []time.Duration
		for turn := range execTurns + 1 {
			a, s, f := w.api(program), w.ssh(program), w.fork(program)
			if turn > 0 { // the first is to warm up
				api, ssh, fork = append(api, a...), append(ssh, s...), append(fork, f...)
			}
		}
		b.Run(filepath.Base(program), func(b *testing.B) {
			took, shell, plain := median(api), median(ssh), median(fork)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took.Microseconds())/1000, "exec-ms")
			b.ReportMetric(float64(plain.Microseconds())/1000, "fork+exec-ms")
			b.ReportMetric(took.Seconds()/shell.Seconds(), "exec/ssh")
			b.ReportMetric(took.Seconds()/plain.Seconds(), "exec/fork+exec")
		})
	}
	var fresh, warm []time.Duration
	for i := range execTurns {
		began := time.Now()
		name := fmt.Sprintf("new%d", i)
		w.create(name)
		w.run(name, "/bin/true")
		fresh = append(fresh, time.Since(began))
		warm = append(warm, w.api("/bin/true")...)
	}
	b.Run("new agent", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median(fresh).Seconds()/median(warm).Seconds(), "first/exec")
	})
}

// execWorld is a daemon with a Debian guest, an agent, an sshd beside its room,
// and a connection to that.
type execWorld struct {
	b       *testing.B
	client  *control.Client
	machine *atomic.Pointer[vm.Machine]
	control string // socket of the kept-open ssh
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

func newExecWorld(b *testing.B) *execWorld {
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
	driver := &tap{Driver: &qemu.Driver{}}
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Home: home, Driver: driver, Ready: func(*control.Server) { close(ready) }})
	}()
	b.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
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
	if _, err := client.Up(b.Context(), connect.NewRequest(&controlpb.UpRequest{})); err != nil {
		b.Fatal(err)
	}
	w := &execWorld{b: b, client: client, machine: &driver.last}
	w.create("alice")
	w.furnish(home)
	return w
}

func (w *execWorld) create(name string) {
	w.b.Helper()
	if _, err := w.client.Agents.Create(w.b.Context(), connect.NewRequest(&controlpb.CreateAgentRequest{Name: name})); err != nil {
		w.b.Fatal(err)
	}
}

// furnish puts into the guest what is measured beside agents.
func (w *execWorld) furnish(home config.Home) {
	w.b.Helper()
	shared := home.SharedFolder()
	w.host(shared, "apt-get", "download", "openssh-server", "libwrap0")
	w.host(shared, "sh", "-c", "for p in *.deb; do dpkg-deb -x $p sshd; done")
	w.host(shared, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key")
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(shared, "spawn"), "osaurus-sandbox/bench/spawn")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		w.b.Fatalf("%v\n%s", err, text)
	}
	if err := os.WriteFile(filepath.Join(shared, "true"), floor.True(vm.HostArch()), 0o755); err != nil {
		w.b.Fatal(err)
	}
	install := "mkdir -p /usr/local/bin && cp /workspace/shared/true " + staticTrue + " && chmod 755 " + staticTrue
	w.root(install + ` && cp /workspace/shared/spawn /usr/local/bin && tar -C /workspace/shared/sshd -c . | tar -C / -x --keep-directory-symlink && mkdir -p /run/sshd /etc/ssh /home/agent/.ssh &&
		ssh-keygen -q -A && echo 'StrictModes no' > /etc/ssh/sshd_config && echo sshd:x:105:65534::/run/sshd:/usr/sbin/nologin >> /etc/passwd && echo agent:x:19999:19999::/home/agent:/bin/sh >> /etc/passwd && echo 'agent:*:::::::' >> /etc/shadow &&
		cp /workspace/shared/key.pub /home/agent/.ssh/authorized_keys && chown -R 19999:19999 /home/agent && chmod 755 /home/agent && chmod 700 /home/agent/.ssh && /usr/sbin/sshd -t`)
	p, err := w.client.RunAs(w.b.Context(), "alice", guest.Command{Args: []string{"sh", "-c", install}, RoomRoot: true})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v", exit, err)
	}
	// With nofork, sshd itself has the connection: nothing stands between.
	listen, err := w.client.Run(w.b.Context(), guest.Command{Args: []string{"socat", fmt.Sprintf("VSOCK-LISTEN:%d,fork", sshPort), "EXEC:/usr/sbin/sshd -i -e,nofork"}})
	if err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() { _ = listen.Signal(context.Background(), guest.SIGTERM) })
	w.connect(filepath.Join(shared, "key"))
}

// connect opens the connection that ssh keeps.
func (w *execWorld) connect(key string) {
	w.b.Helper()
	dir, err := os.MkdirTemp("", "ssh") // a socket's path is short
	if err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "guest"))
	if err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := dialSSH(*w.machine.Load())
			if err != nil {
				_ = here.Close()
				continue
			}
			go func() { _, _ = io.Copy(there, here); _ = there.Close() }()
			go func() { _, _ = io.Copy(here, there); _ = here.Close() }()
		}
	}()
	w.control = filepath.Join(dir, "control")
	master := exec.Command("ssh", "-M", "-N", "-S", w.control, "-i", key, "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes",
		"-o", "ProxyCommand=socat - UNIX-CONNECT:"+l.Addr().String(), "agent@guest")
	var said bytes.Buffer
	master.Stderr = &said
	if err := master.Start(); err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() {
		_ = master.Process.Kill()
		_ = master.Wait()
	})
	for deadline := time.Now().Add(2 * time.Minute); exec.Command("ssh", "-S", w.control, "-O", "check", "agent@guest").Run() != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.b.Fatalf("ssh does not connect: %s", said.String())
		}
	}
}

// dialSSH connects to the guest's sshd as soon as it listens.
func dialSSH(m vm.Machine) (net.Conn, error) {
	for {
		c, err := m.Dial(context.Background(), sshPort)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *execWorld) host(dir string, args ...string) {
	w.b.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		w.b.Fatalf("%v: %v\n%s", args, err, text)
	}
}

// root runs a script as root of the guest and returns what it writes.
func (w *execWorld) root(script string) string {
	w.b.Helper()
	var out, errs bytes.Buffer
	p, err := w.client.Run(w.b.Context(), guest.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v: %s", exit, err, errs.String())
	}
	return out.String()
}

func (w *execWorld) run(agent, program string) {
	w.b.Helper()
	p, err := w.client.RunAs(w.b.Context(), agent, guest.Command{Args: []string{program}})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v", exit, err)
	}
}

// api, ssh and fork are one turn of each side.

func (w *execWorld) api(program string) (took []time.Duration) {
	for range execPerTurn {
		began := time.Now()
		w.run("alice", program)
		took = append(took, time.Since(began))
	}
	return took
}

func (w *execWorld) ssh(program string) (took []time.Duration) {
	for range execPerTurn {
		began := time.Now()
		if text, err := exec.Command("ssh", "-S", w.control, "agent@guest", program).CombinedOutput(); err != nil {
			w.b.Fatalf("ssh: %v, %s", err, text)
		}
		took = append(took, time.Since(began))
	}
	return took
}

func (w *execWorld) fork(program string) (took []time.Duration) {
	out := w.root(fmt.Sprintf("/usr/local/bin/spawn %d %s", execPerTurn+1, program))
	for _, line := range strings.Fields(out)[1:] { // the first has its program to read
		nanos, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			w.b.Fatal(err)
		}
		took = append(took, time.Duration(nanos))
	}
	return took
}
