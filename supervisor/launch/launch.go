// Package launch boots a guest: it verifies the image, starts a machine, greets the guest and hands over a client that speaks to it.
package launch

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
)

const (
	// bootTimeout is how long a guest has to answer. A boot takes two to four
	// seconds even where every instruction is emulated; on a host that is busy
	// with other things it has been seen to take twenty.
	bootTimeout = 90 * time.Second
	// clockEvery is how often the guest's clock is set: a guest drifts by
	// milliseconds in that time, and a host that slept is noticed at once.
	clockEvery = 30 * time.Second
	// standstillEvery is how often it is looked whether a machine that boots stands still: nobody
	// is to wait for the end of bootTimeout to hear that the disk is full.
	standstillEvery = time.Second
	// stopGrace is what commands in the guest have between SIGTERM and SIGKILL
	// when it powers off, and offGrace what the guest has for all of it.
	stopGrace = 3 * time.Second
	offGrace  = 20 * time.Second
)

// Spec is what a guest is booted from.
type Spec struct {
	Driver vm.Driver
	Image  image.Image

	// Name is shown in process lists and errors; Hostname is the guest's own.
	Name, Hostname string
	CPUs           int
	Memory         int64 // bytes
	// DataDisk is the image file that keeps what the guest changes outside
	// its shares. Without one it is all gone when the machine ends.
	DataDisk string
	Shares   []Share
	Network  vm.NetworkKind
	// ConsoleLog and StateDir are as in vm.Config.
	ConsoleLog, StateDir string
	// Bridge answers what programs in the guest ask for; nil is nobody.
	Bridge Bridge
}

// Bridge answers what programs in guests ask of this host.
type Bridge interface {
	// Serve answers the connections of one guest until the listener is closed. A
	// connection's UID method says which Linux user of the guest it is of:
	// see preface.Conn. There may be several guests, one after the other or at once.
	Serve(net.Listener) error
}

// MinFree is what a guest is to leave free of the disk that a share is on: a host
// with a full disk cannot even save its settings. With less, the guest cannot write there.
const MinFree = 512 << 20

// Share is a folder of the host and where it is in the guest.
type Share struct {
	vm.Share
	MountPoint string
}

// Guest is a running machine whose guest answers.
type Guest struct {
	Machine vm.Machine
	Client  *guest.Client
	Timings Timings

	stopClock context.CancelFunc
	clock     chan struct{} // closed when the clock is no longer kept
	bridge    *served       // or nil
}

// Timings say where a boot's time went.
type Timings struct {
	Verify time.Duration // until kernel and initramfs were known to be unchanged
	Start  time.Duration // from then until the processors ran
	Base   time.Duration // from then until the base was known to be unchanged
	Answer time.Duration // from then until the guest was ready for commands
}

// Boot starts a machine and returns when its guest is ready for commands.
// Nothing is left behind if it fails. A guest that does not answer fails with
// fault.Timeout, a machine that ends before with its own error, and an image
// with a changed byte with that of image.Verify. The base is verified while the
// kernel boots: nothing of it runs before the guest is greeted.
func Boot(ctx context.Context, spec Spec) (_ *Guest, err error) {
	g := &Guest{}
	began := time.Now()
	lap := func(d *time.Duration) { *d, began = time.Since(began), time.Now() }

	if err := spec.Image.VerifyBoot(ctx); err != nil {
		return nil, err
	}
	lap(&g.Timings.Verify)

	g.Machine, err = spec.Driver.New(ctx, spec.machine())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Machine.Close())
		}
	}()
	if err := g.Machine.Start(ctx); err != nil {
		return nil, err
	}
	lap(&g.Timings.Start)
	if err := spec.Image.VerifyBase(ctx); err != nil {
		return nil, err
	}
	lap(&g.Timings.Base)

	boot := spec.boot()
	if g.bridge, err = serve(g.Machine, spec.Bridge); err != nil {
		return nil, err
	}
	if g.bridge != nil {
		boot.Bridge = &g.bridge.key
	}
	if g.Client, err = greet(ctx, g.Machine, boot); err != nil {
		return nil, errors.Join(err, g.bridge.close())
	}
	lap(&g.Timings.Answer)

	clock, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stopClock, g.clock = stop, make(chan struct{})
	go func() {
		defer close(g.clock)
		debug.FreeOSMemory() // what starting took; beside a guest this program mostly waits
		g.Client.KeepTime(clock, clockEvery)
	}()
	return g, nil
}

// greet waits for the guest's answer, for the machine's end or standstill, or for too long.
func greet(ctx context.Context, m vm.Machine, boot guest.Boot) (*guest.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		look := time.NewTicker(standstillEvery)
		defer look.Stop()
		for {
			select {
			case <-m.Done():
				cancel()
				return
			case <-look.C:
				if m.Standstill() != nil {
					cancel()
				}
			case <-over:
				return
			}
		}
	}()
	client, err := guest.Connect(ctx, m.Dial, boot)
	if err == nil {
		return client, nil
	}
	select {
	case <-m.Done():
		// The machine knows better than the connection why there is no answer.
		if m.Err() != nil {
			return nil, m.Err()
		}
		return nil, fault.Newf(fault.Execution, "boot guest", "", "it powered off before it answered").
			Advise("Its console log says why.")
	default:
	}
	if still := m.Standstill(); still != nil {
		return nil, fault.New(fault.Execution, "boot guest", "", still).Advise("Make room on this computer's disk, then start it again.")
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fault.New(fault.Timeout, "boot guest", "", err).
			Advise("Its console log says how far it came. A busy host may need another try.")
	}
	return nil, err
}

// Shutdown powers the guest off the orderly way, or the hard way if it does
// not obey, and releases everything. It may be called more than once.
func (g *Guest) Shutdown(ctx context.Context) error {
	err := vm.Shutdown(ctx, g.Machine, offGrace, func(ctx context.Context) error {
		return g.Client.Shutdown(ctx, stopGrace)
	})
	return errors.Join(err, g.Close())
}

// Close ends the machine at once and releases everything.
func (g *Guest) Close() error {
	g.stopClock()
	err := errors.Join(g.Client.Close(), g.Machine.Close(), g.bridge.close())
	<-g.clock
	return err
}

// machine is the machine that the spec asks for.
func (s Spec) machine() vm.Config {
	c := vm.Config{
		Name: s.Name, Arch: s.Image.Arch, CPUs: s.CPUs, Memory: s.Memory,
		Kernel: s.Image.Kernel, Initrd: s.Image.Initrd,
		Disks:      []vm.Disk{{Path: s.Image.Base, ReadOnly: true}},
		Network:    s.Network,
		ConsoleLog: s.ConsoleLog, StateDir: s.StateDir,
	}
	if s.DataDisk != "" {
		c.Disks = append(c.Disks, vm.Disk{Path: s.DataDisk})
	}
	for _, share := range s.Shares {
		c.Shares = append(c.Shares, share.Share)
	}
	return c
}

// boot is what the guest is told.
func (s Spec) boot() guest.Boot {
	b := guest.Boot{Hostname: s.Hostname, Base: s.Image.BaseDigest.String(), Network: guest.NetworkPlan{Kind: guest.NetworkNone}}
	if s.Network == vm.NetworkNAT {
		b.Network.Kind = guest.NetworkDHCP
	}
	for _, share := range s.Shares {
		b.Mounts = append(b.Mounts, guest.Mount{Tag: share.Tag, Path: share.MountPoint, ReadOnly: share.ReadOnly})
	}
	return b
}
