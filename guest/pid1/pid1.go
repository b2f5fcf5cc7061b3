//go:build linux

// Package pid1 is the guest's init: it loads modules, mounts file systems, sets up clock and network, and serves the guest protocol to the host.
package pid1

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/guest/service"
)

// Parent cgroups of the host's commands and of rooms.
const (
	commands = cgroups + "/commands"
	rooms    = cgroups + "/rooms"
)

// Run runs PID 1 and never returns. It must be called on the process's first thread, locked to it.
func Run(version string) {
	unix.Umask(0o022)
	// While this process starts a child in a room, the agent can see it there.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		panic(err) // does not fail on Linux
	}
	m := newMachine()
	go func() {
		err := m.serve(version)
		// The console is the only place to report it.
		m.log("cannot serve: %v; powering off", err)
		m.PowerOff(time.Second)
	}()
	select {}
}

// serve boots far enough to answer the host, continues the boot in the background, and serves the
// host's calls.
func (m *machine) serve(version string) error {
	if err := mountKernel(); err != nil {
		return err
	}
	m.log("init")
	var err error
	if m.random, err = os.OpenFile("/dev/random", os.O_WRONLY, 0); err != nil {
		return err
	}
	if m.modules, err = openModules(); err != nil {
		return err
	}
	if err := m.modules.load(order, m.warn); err != nil {
		return err
	}
	m.openConsole()
	m.log("modules")
	l, err := vsock.Listen(protocol.Port, nil)
	if err != nil {
		return fmt.Errorf("listen on vsock port %d: %w (are the vsock modules in the image?)", protocol.Port, err)
	}
	entries, err := vsock.Listen(protocol.DataPort, nil)
	if err != nil {
		return fmt.Errorf("listen on vsock port %d: %w", protocol.DataPort, err)
	}
	m.limits()
	processes, err := process.NewManager(process.Options{Init: true, Cgroup: commands})
	if err != nil {
		return err
	}
	m.rooms = m.newRooms(processes)
	m.listeners, m.service = []io.Closer{l, entries}, service.New(m, processes, m.rooms, own+"/data", version)
	go m.handleSignals()
	go func() {
		if err := m.service.ServeEntries(hostOnly{entries}); !m.ending.Load() {
			m.warn("serve commands and files", err)
		}
	}()
	go func() {
		m.prepared <- m.prepare()
		m.log("root")
	}()
	if err := m.service.Serve(hostOnly{l}); !m.ending.Load() {
		return err
	}
	select {} // PowerOff has closed the listeners and ends the process
}

// newRooms returns the manager of rooms.
func (m *machine) newRooms(processes *process.Manager) *room.Manager {
	return room.NewManager(room.Options{
		Processes: processes, Program: own + "/guest", Base: own + "/base", BaseName: m.baseName, Data: own + "/data/rooms", Run: own + "/rooms",
		Resolvers: resolvers, Shim: shim, Relay: m.relay.Load, Cgroup: rooms, ModulesLoaded: m.loaded,
	})
}

// Rooms returns a manager for processes other than PID 1. It reads and writes layers of rooms, and must not make rooms.
func Rooms(base string) *room.Manager {
	return room.NewManager(room.Options{Base: own + "/base", BaseName: func() string { return base }, Data: own + "/data/rooms", Run: own + "/rooms"})
}

// hostOnly accepts connections from the host only. Programs in the guest could otherwise reach the
// service through vsock's loopback.
type hostOnly struct{ net.Listener }

func (l hostOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if a, ok := c.RemoteAddr().(*vsock.Addr); ok && a.ContextID == vsock.Host {
			return c, nil
		}
		_ = c.Close()
	}
}

// handleSignals powers off on the signals that programs send to init for that. It catches others so
// that they cannot end this process and with it the machine.
func (m *machine) handleSignals() {
	off := make(chan os.Signal, 1)
	signal.Notify(off, unix.SIGTERM, unix.SIGINT, unix.SIGPWR, unix.SIGUSR1, unix.SIGUSR2)
	ignored := make(chan os.Signal, 1) // never read
	signal.Notify(ignored, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT,
		unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL) // if sent by a process; real faults still end this process
	<-off
	m.PowerOff(protocol.DefaultGrace)
}

// limits sets the resource limits that children inherit. Many tools need more than the default of
// 1024 open files but do not raise the limit. Core dumps are disabled.
func (m *machine) limits() {
	const soft, hard = 64 << 10, 512 << 10
	m.warn("raise the limit of open files", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: hard}))
	m.warn("forbid core dumps", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}
