//go:build linux

// Package pid1 makes a booting kernel into a guest: modules, mounts, clock, network, and the service that the host speaks to.
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

// Where the cgroups of the host's commands are, and those of rooms.
const (
	commands = cgroups + "/commands"
	rooms    = cgroups + "/rooms"
)

// Run is the life of PID 1. It never returns: the machine ends with it. It must
// be called on the first thread of the process, locked to it.
func Run(version string) {
	unix.Umask(0o022)
	// While it starts a child, this process is seen in a room, as the agent.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		panic(err) // no kernel has refused that yet
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

// serve boots so far that the host can be answered, lets the rest of the boot
// go on beside, and answers.
func (m *machine) serve(version string) error {
	if err := mountKernel(); err != nil {
		return err
	}
	m.step("init")
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
	m.step("modules")
	l, err := vsock.Listen(protocol.Port, nil)
	if err != nil {
		return fmt.Errorf("listen on vsock port %d: %w (are the vsock modules in the image?)", protocol.Port, err)
	}
	entries, err := vsock.Listen(protocol.DataPort, nil)
	if err != nil {
		return fmt.Errorf("listen on vsock port %d: %w", protocol.DataPort, err)
	}
	m.limits()
	keeper, err := process.NewManager(process.Options{Init: true, Cgroup: commands})
	if err != nil {
		return err
	}
	m.rooms = m.newRooms(keeper)
	m.listeners, m.service = []io.Closer{l, entries}, service.New(m, keeper, m.rooms, own+"/data/jobs", version)
	go m.handleSignals()
	go func() {
		if err := m.service.ServeEntries(hostOnly{entries}); !m.ending.Load() {
			m.warn("take lines and connections for rooms", err)
		}
	}()
	go func() {
		m.prepared <- m.prepare()
		m.step("root")
	}()
	if err := m.service.Serve(hostOnly{l}); !m.ending.Load() {
		return err
	}
	select {} // PowerOff has closed the listeners and goes on
}

// newRooms returns a keeper of no rooms yet.
func (m *machine) newRooms(keeper *process.Manager) *room.Manager {
	return room.NewManager(room.Options{
		Processes: keeper, Program: own + "/guest", Base: own + "/base", BaseName: m.baseName, Data: own + "/data/rooms", Run: own + "/rooms",
		Resolvers: resolvers, Shim: shim, Relay: m.relay.Load, Cgroup: rooms, ModulesLoaded: m.loaded,
	})
}

// hostOnly accepts connections of the host. Programs in this guest could
// otherwise connect to it, and through vsock's loopback to the service.
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

// handleSignals does what processes of the guest expect init to do on signals: power
// off. The rest is taken so that it cannot end this process, and with it the
// machine.
func (m *machine) handleSignals() {
	off := make(chan os.Signal, 1)
	signal.Notify(off, unix.SIGTERM, unix.SIGINT, unix.SIGPWR, unix.SIGUSR1, unix.SIGUSR2)
	ignored := make(chan os.Signal, 1) // not read
	signal.Notify(ignored, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT,
		unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL) // sent by somebody: real ones still end us
	<-off
	m.PowerOff(protocol.DefaultGrace)
}

// limits sets what children inherit: many tools need more than the kernel's
// 1024 open files, and few raise it themselves. Core dumps are of no use.
func (m *machine) limits() {
	const soft, hard = 64 << 10, 512 << 10
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: hard}); err != nil {
		m.warn("raise the limit of open files", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		m.warn("forbid core dumps", err)
	}
}
