package toolhost_test

import (
	"context"
	"net"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// here is a room whose commands run on this host. As in a room, processes that a command leaves end
// with it.
type here struct {
	engine.Room
	env     []string // after that of the command
	running *atomic.Int32
}

func (h here) Exec(ctx context.Context, c engine.Command) (engine.Process, error) {
	p := &ran{done: make(chan struct{})}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = slices.Concat(c.Env, h.env), c.Dir, c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fault.New(fault.NotFound, "run", c.Args[0], err)
	}
	h.running.Add(1)
	signal := func(s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) } // it may have ended
	end := sync.OnceFunc(func() { signal(syscall.SIGTERM) })
	timer := time.AfterFunc(c.Timeout, func() {
		p.timedOut.Store(true)
		end()
	})
	stop := context.AfterFunc(ctx, end)
	go func() {
		defer close(p.done)
		defer h.running.Add(-1)
		_ = cmd.Wait() // its status says the same
		signal(syscall.SIGKILL)
		timer.Stop()
		stop()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			p.exit.Signal = engine.HostSignal(status.Signal())
		} else {
			p.exit.Code = status.ExitStatus()
		}
		p.exit.TimedOut = p.timedOut.Load()
	}()
	return p, nil
}

// ran is a command on this host.
type ran struct {
	engine.Process
	done     chan struct{}
	timedOut atomic.Bool
	exit     engine.Exit
}

func (p *ran) Signal(context.Context, engine.Signal) error { return nil }
func (p *ran) Done() <-chan struct{}                       { return p.done }
func (p *ran) Wait() (engine.Exit, error)                  { <-p.done; return p.exit, nil }

// from accepts connections as those of one user of a guest.
type from struct {
	net.Listener
	uid uint32
}

func (f from) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	return peer{c, f.uid}, err
}

type peer struct {
	net.Conn
	uid uint32
}

func (p peer) UID() uint32           { return p.uid }
func (peer) Plugin() config.PluginID { return "" }

var _ bridge.Peer = peer{}
