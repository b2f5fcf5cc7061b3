// Package hosttest provides a fake machine.Backend whose guest runs programs on this host, for tests that need no boot.
package hosttest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/machine"
)

// Backend implements machine.Backend without VMs. The layers of rooms outlive
// its guests.
type Backend struct {
	Broken error // the error of boots
	Stuck  bool  // boots never end
	// Workspace is the folder at /workspace in the guest. Without it, agents have no files.
	Workspace string
	// Base names the base image. Tests change it while no guest runs.
	Base string
	// Opened are the paths in /workspace that each process has open.
	Opened []string

	mu    sync.Mutex
	disk  map[config.LinuxUser]string // the base of each user's layer
	guest *Guest                      // the last one
}

// Guest returns the last guest, or nil.
func (b *Backend) Guest() *Guest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.guest
}

// HasLayer reports whether a user has a layer on the data disk.
func (b *Backend) HasLayer(user config.LinuxUser) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, has := b.disk[user]
	return has
}

func (*Backend) Check(context.Context) (string, error) { return "none", nil }
func (*Backend) Provisioned() bool                     { return true }
func (*Backend) Ready(config.Settings) bool            { return true }
func (*Backend) Remove(context.Context) error          { return nil }

// Reset implements machine.Backend.
func (b *Backend) Reset(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.disk)
	return nil
}

func (*Backend) Prepare(_ context.Context, _ config.Settings, _ bool, tracker *progress.Tracker) error {
	return tracker.Do(progress.StepPack, func(report progress.Func) error { report.Note("the pack is no pack"); return nil })
}

func (b *Backend) Boot(ctx context.Context, _ config.Settings, tracker *progress.Tracker) (machine.Guest, boot.Machine, error) {
	err := tracker.Do(progress.StepBoot, func(progress.Func) error {
		if b.Stuck {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return b.Broken
	})
	if err != nil {
		return nil, boot.Machine{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g := &Guest{backend: b, done: make(chan struct{}), rooms: map[config.LinuxUser]engine.RoomConfig{}, tokens: map[config.LinuxUser]string{}, runs: map[*command]bool{}, ended: map[config.LinuxUser]chan struct{}{}}
	if g.terminals, err = newTerminals(g); err != nil {
		return nil, boot.Machine{}, err
	}
	var wire *os.File
	if g.gateway, wire, err = network.Open(network.Options{Policy: func(network.Subject) policy.Policy { return policy.Policy{} }}); err != nil {
		return nil, boot.Machine{}, err
	}
	wire.Close()
	b.guest = g
	return g, boot.Machine{Pack: "none", CPUs: 1}, nil
}

// Guest runs the commands of all users on this host.
type Guest struct {
	backend   *Backend
	done      chan struct{}
	once      sync.Once
	closed    error // the result of once
	terminals *terminals
	gateway   *network.Gateway // of a wire without a guest

	mu        sync.Mutex
	rooms     map[config.LinuxUser]engine.RoomConfig
	tokens    map[config.LinuxUser]string
	asked     []string // requests about rooms, in order
	when      func(string)
	refuse    error // the error of requests about rooms
	mute      error // the error of all requests
	runs      map[*command]bool
	ended     map[config.LinuxUser]chan struct{} // closed with the room
	snapshots map[config.LinuxUser][]engine.Snapshot
}

var _ machine.Guest = (*Guest)(nil)

func (g *Guest) Ping(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mute
}

func (g *Guest) Info(ctx context.Context) (*guest.Info, error) {
	return &guest.Info{Kernel: "fake", TimeUnixNano: time.Now().UnixNano(), HasData: true}, g.Ping(ctx)
}
func (g *Guest) Gateway() *network.Gateway      { return g.gateway }
func (g *Guest) Shutdown(context.Context) error { return g.Close() }
func (g *Guest) Done() <-chan struct{}          { return g.done }
func (*Guest) Stalled() error                   { return nil }
func (*Guest) Err() error                       { return nil }

// Close ends all commands.
func (g *Guest) Close() error {
	g.once.Do(func() {
		close(g.done) // first: calls that break wait only briefly to hear why
		g.closed = errors.Join(g.terminals.close(), g.gateway.Close())
		g.mu.Lock()
		defer g.mu.Unlock()
		g.end(func(*command) error { return errGone })
	})
	return g.closed
}

// exec starts a command of a user.
func (g *Guest) exec(ctx context.Context, user config.LinuxUser, c engine.Command) (engine.Process, error) {
	if err := g.enter(user); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, nil, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it has started ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if c.Stdin != nil { // as in the guest, unread input does not delay the end
		stdin, err := cmd.StdinPipe()
		if err != nil {
			cancel()
			return nil, err
		}
		go func() {
			_, _ = io.Copy(stdin, c.Stdin)
			_ = stdin.Close()
		}()
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fault.New(fault.NotFound, "run command", c.Args[0], err).Advise("Install it.")
	}
	p := &command{cmd: cmd, room: user, kill: cancel, done: make(chan struct{})}
	g.add(p)
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		g.remove(p)
		cancel()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			p.exit.Signal = engine.HostSignal(status.Signal())
		} else {
			p.exit.Code = status.ExitStatus()
		}
		if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
			p.err = err
		}
		p.err = cmp.Or(p.lost, p.err)
	}()
	return p, nil
}

// errGone is the error of commands whose guest has ended.
var errGone = fault.Newf(fault.Unavailable, engine.OpRun, "", "the machine ended before it did").Advise("See `osaurus-sandbox status` for why; then run it again.")

func (g *Guest) add(p *command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs[p] = true
	if _, has := g.rooms[p.room]; p.room != "" && !has {
		g.endRoom(p.room)
	}
	select {
	case <-g.done:
		g.end(func(*command) error { return errGone })
	default:
	}
}

func (g *Guest) remove(p *command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.runs, p)
}

// end kills the commands for which lost returns an error, and gives them that error.
// Guest.mu is held.
func (g *Guest) end(lost func(*command) error) {
	for p := range g.runs {
		if err := lost(p); err != nil {
			p.lost = err
			p.kill()
		}
	}
}

// endRoom kills the commands of a room. Guest.mu is held.
func (g *Guest) endRoom(user config.LinuxUser) {
	delete(g.rooms, user)
	if ended, ok := g.ended[user]; ok {
		close(ended)
		delete(g.ended, user)
	}
	g.end(func(p *command) error {
		if p.room != user {
			return nil
		}
		return fault.New(fault.Unavailable, engine.OpRun, p.cmd.Path, fault.Newf(fault.Unavailable, engine.OpRun, string(user), "the room was ended")).Advise("Run it again.")
	})
}

type command struct {
	cmd  *exec.Cmd
	room config.LinuxUser
	kill context.CancelFunc
	lost error // why its end is unknown
	done chan struct{}
	exit engine.Exit
	err  error
}

func (p *command) PID() int                         { return p.cmd.Process.Pid }
func (p *command) Resize(engine.TerminalSize) error { return nil }
func (p *command) Done() <-chan struct{}            { return p.done }
func (p *command) Wait() (engine.Exit, error)       { <-p.done; return p.exit, p.err }
func (p *command) Signal(_ context.Context, s engine.Signal) error {
	return p.cmd.Process.Signal(syscall.Signal(s))
}
