//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/relay"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/guest/service"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/subnet"
)

// machine implements service.System for the guest's machine.
type machine struct {
	modules   modules
	random    *os.File // /dev/random, opened early: its path is missing while the root changes
	listeners []io.Closer
	service   *service.Service
	rooms     *room.Manager
	prepared  chan error // result of prepare
	late      sync.WaitGroup
	loaded    chan struct{} // closed when the late modules are loaded
	ending    atomic.Bool
	hasData   atomic.Bool                 // the root is on a data disk
	relay     atomic.Pointer[relay.Relay] // nil if the host serves no bridge

	speaking sync.Mutex // held while a line is written to the console, which the host can delay
	console  io.Writer

	mu       sync.Mutex // never held across I/O: Info takes it
	warnings []string
	mounts   []*guestpb.Mount
	base     string            // name of the base
	release  map[string]string // the root's os-release

	network, networkTrouble string // as in InfoResponse
}

// baseName returns the name of the base, which is known after the host's Hello.
func (m *machine) baseName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.base
}

func newMachine() *machine {
	return &machine{console: os.Stderr, network: "none", prepared: make(chan error, 1), loaded: make(chan struct{})}
}

// log writes a short line to the console.
func (m *machine) log(format string, args ...any) {
	m.speaking.Lock()
	defer m.speaking.Unlock()
	fmt.Fprintf(m.console, "osaurus-guest %.3f %s\r\n", uptime().Seconds(), fmt.Sprintf(format, args...))
}

// warn records and logs an error that does not stop the boot, if there is one.
func (m *machine) warn(what string, err error) {
	if err == nil {
		return
	}
	text := fmt.Sprintf("%s: %v", what, err)
	m.mu.Lock()
	if len(m.warnings) < protocol.MaxList {
		m.warnings = append(m.warnings, text)
	}
	m.mu.Unlock()
	m.log("%s", text)
}

func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// Boot implements service.System.
func (m *machine) Boot(hello *guestpb.HelloRequest) error {
	m.log("hello")
	_, err := m.SetTime(time.Unix(0, hello.TimeUnixNano))
	m.warn("set clock", err)
	m.warn("add entropy", m.addEntropy(hello.Entropy))
	boot := hello.GetBoot()
	m.mu.Lock()
	m.base = boot.GetBase()
	m.mu.Unlock()
	if boot.GetHostname() != "" {
		m.warn("set host name", unix.Sethostname([]byte(boot.Hostname)))
	}
	if err := <-m.prepared; err != nil {
		m.log("boot failed: %v", err)
		return err
	}
	m.warn("loopback", network.Loopback())
	m.warn("write /etc/hosts", writeHosts(boot.GetHostname()))
	if boot.GetNetwork() {
		m.connect()
	}
	for _, want := range boot.GetMounts() {
		if err := mountShare(want); err != nil {
			return err
		}
		m.mu.Lock()
		m.mounts = append(m.mounts, want)
		m.mu.Unlock()
	}
	if key := boot.GetBridgeKey(); len(key) == protocol.KeySize { // or the host serves no bridge
		m.relay.Store(relay.New(protocol.BridgeKey(key), dialBridge))
	}
	m.log("mounts")
	patchForGood()
	m.rooms.Prepare() // before the other processors start: the kernel patches its code for the first limits
	startProcessors(m.warn)
	m.log("processors")
	m.late.Go(m.afterBoot)
	m.log("ready")
	return nil
}

// connect connects the guest to the gateway. It does not stop the boot: a guest without a network
// can still be asked why.
func (m *machine) connect() {
	status, trouble := "up", ""
	if err := errors.Join(network.Configure(), writeResolvers(subnet.Gateway())); err != nil {
		status, trouble = "failed", err.Error()
	}
	m.mu.Lock()
	m.network, m.networkTrouble = status, trouble
	m.mu.Unlock()
	m.log("network %s", status)
}

// afterBoot finishes what most commands do not depend on.
func (m *machine) afterBoot() {
	m.warn("load late modules", m.modules.load(late, m.warn))
	close(m.loaded)
	m.set([]setting{{"kernel/modules_disabled", "1"}})
	m.warn("remove module files", m.modules.drop())
	for _, b := range openButtons() {
		go b.watch(func() { m.PowerOff(protocol.DefaultGrace) })
	}
}

// SetTime implements service.System.
func (m *machine) SetTime(t time.Time) (time.Duration, error) {
	ahead := time.Since(t)
	tv := unix.NsecToTimeval(t.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return 0, fault.New(fault.Execution, "set clock", t.String(), err)
	}
	return ahead, nil
}

// addEntropy adds the host's random bytes to the kernel's entropy pool.
func (m *machine) addEntropy(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	defer m.random.Close()
	return addEntropyTo(m.random, b)
}

// bootErr returns the error for a failed part of the boot.
func bootErr(op, subject string, err error, advice string) error {
	kind := fault.Execution
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		kind = fault.Unavailable
	}
	return fault.New(kind, op, subject, err).Advise(advice)
}
