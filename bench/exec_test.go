//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bench/floor"
	"osaurus-sandbox/control"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
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

// execWorld has an sshd beside the agent's room, and a connection to that.
type execWorld struct {
	*world
	control string // socket of the kept-open ssh
}

func newExecWorld(b *testing.B) *execWorld {
	b.Helper()
	w := &execWorld{world: newWorld(b)}
	w.furnish()
	return w
}

// furnish puts into the guest what is measured beside agents.
func (w *execWorld) furnish() {
	w.b.Helper()
	shared := w.home.SharedFolder()
	w.host(shared, "apt-get", "download", "openssh-server", "libwrap0")
	w.host(shared, "sh", "-c", "for p in *.deb; do dpkg-deb -x $p sshd; done")
	w.host(shared, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key")
	w.build("spawn")
	if err := os.WriteFile(filepath.Join(shared, "true"), floor.True(vm.HostArch()), 0o755); err != nil {
		w.b.Fatal(err)
	}
	install := "mkdir -p /usr/local/bin && cp /workspace/shared/true " + staticTrue + " && chmod 755 " + staticTrue
	w.root(install + ` && cp /workspace/shared/spawn /usr/local/bin && tar -C /workspace/shared/sshd -c . | tar -C / -x --keep-directory-symlink && mkdir -p /run/sshd /etc/ssh /home/agent/.ssh &&
		ssh-keygen -q -A && echo 'StrictModes no' > /etc/ssh/sshd_config && echo sshd:x:105:65534::/run/sshd:/usr/sbin/nologin >> /etc/passwd && echo agent:x:19999:19999::/home/agent:/bin/sh >> /etc/passwd && echo 'agent:*:::::::' >> /etc/shadow &&
		cp /workspace/shared/key.pub /home/agent/.ssh/authorized_keys && chown -R 19999:19999 /home/agent && chmod 755 /home/agent && chmod 700 /home/agent/.ssh && /usr/sbin/sshd -t`)
	p, err := w.client.Run(w.b.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"sh", "-c", install}, RoomRoot: true})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v", exit, err)
	}
	// With nofork, sshd itself has the connection: nothing stands between.
	listen, err := w.client.Run(w.b.Context(), control.RunAs{}, engine.Command{Args: []string{"socat", fmt.Sprintf("VSOCK-LISTEN:%d,fork", sshPort), "EXEC:/usr/sbin/sshd -i -e,nofork"}})
	if err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() { _ = listen.Signal(context.Background(), engine.SIGTERM) })
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
			there, err := dialGuest(*w.machine.Load(), sshPort)
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
	timetest.Eventually(w.b, "ssh connects", func() bool {
		return exec.Command("ssh", "-S", w.control, "-O", "check", "agent@guest").Run() == nil
	})
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
