// Package boot prepares the boot files of a home, builds its toolbox and boots its guest.
package boot

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
)

const (
	// bootTimeout is how long a guest has to answer. An emulated guest takes two
	// to four seconds on an idle host and took twenty on a busy one.
	bootTimeout = 90 * time.Second
	// clockEvery is how often the guest's clock is set. It drifts by milliseconds
	// in that time, and is wrong at once after the host slept.
	clockEvery = 30 * time.Second
	// stallEvery is how often a booting machine is checked for a stall, so that a
	// full disk is reported before bootTimeout.
	stallEvery = time.Second
	stopGrace  = 3 * time.Second  // between SIGTERM and SIGKILL when the guest powers off
	offGrace   = 20 * time.Second // for the whole power-off
)

// mountPoints is the guest's folder for shares that MountPoints does not name.
const mountPoints = "/mnt"

// MinFree is the disk space that guests leave free on the disk of a share, since
// a host with a full disk cannot even save its settings.
const MinFree = 512 << 20

// Spec describes a guest to boot.
type Spec struct {
	Driver vm.Driver
	Image  image.Image

	// Config is the machine without what Boot takes from the image. Its disk, if there is one, is for what the guest
	// changes outside its shares, which is gone when the machine ends without one.
	vm.Config
	Hostname string // the guest's own
	// MountPoints are where shares are mounted in the guest, by tag. The others are mounted in /mnt.
	MountPoints map[string]string
	// Network configures the gateway. Without it, the guest has no network.
	Network *network.Options
	// Bridge answers requests of programs in the guest. It may be nil.
	Bridge *bridge.Server
}

// Guest is a running machine whose guest answers.
type Guest struct {
	*guest.Client
	vm.Machine

	gateway *network.Gateway // nil without a network
	closers []func() error   // in the order to call them, each more than once
}

// Boot starts a machine and returns when its guest accepts commands. If it fails,
// nothing is left behind. It fails with fault.Timeout if the guest does not answer,
// with the machine's error if that ends first, and with that of Image.VerifyBase if the
// image was changed. The base is verified while the kernel boots, which uses it only
// after connect.
func Boot(ctx context.Context, spec Spec) (_ *Guest, err error) {
	if err := spec.Image.VerifyBoot(ctx); err != nil {
		return nil, err
	}
	g := &Guest{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	c := spec.machineConfig()
	if spec.Network != nil {
		if g.gateway, c.NIC, err = network.Open(*spec.Network); err != nil {
			return nil, err
		}
		defer c.NIC.Close()
		g.closeFirst(g.gateway.Close)
	}
	if g.Machine, err = spec.Driver.New(ctx, c); err != nil {
		return nil, err
	}
	g.closeFirst(g.Machine.Close)
	if err := g.Machine.Start(ctx); err != nil {
		return nil, err
	}
	if err := spec.Image.VerifyBase(ctx); err != nil {
		return nil, err
	}
	config := spec.guestBoot()
	if spec.Bridge != nil { // before the first program of the guest
		if config.BridgeKey, err = g.serveBridge(spec.Bridge); err != nil {
			return nil, err
		}
	}
	if g.Client, err = connect(ctx, g.Machine, config); err != nil {
		return nil, err
	}
	g.closeFirst(g.Client.Close)
	clock, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() {
		debug.FreeOSMemory() // the rest of the program needs less than the start
		g.Client.KeepTime(clock, clockEvery)
	})
	g.closeFirst(func() error { stop(); keeping.Wait(); return nil })
	return g, nil
}

func (g *Guest) closeFirst(end func() error) { g.closers = slices.Insert(g.closers, 0, end) }

// OpenNetwork returns the gateway of a guest without agents. Beyond the internet, it reaches what the
// rules allow.
func OpenNetwork(rules ...config.NetworkRule) *network.Options {
	p := policy.Policy{Mode: config.NetworkOpen, Rules: rules, Local: network.LocalNetworks()}
	return &network.Options{Policy: func(network.Subject) policy.Policy { return p }}
}

// Info asks the guest for its state, and adds the machine's warnings.
func (g *Guest) Info(ctx context.Context) (*guest.Info, error) {
	info, err := g.Client.Info(ctx)
	if err == nil {
		info.Warnings = append(info.Warnings, g.Warnings()...)
	}
	return info, err
}

// Gateway returns the other end of the guest's network, or nil if it has none.
func (g *Guest) Gateway() *network.Gateway { return g.gateway }

// serveBridge starts the bridge on the machine's port and returns the key that its
// connections need.
func (g *Guest) serveBridge(server *bridge.Server) ([]byte, error) {
	inner, err := g.Machine.Listen(protocol.BridgePort)
	if err != nil {
		return nil, err
	}
	key := protocol.NewBridgeKey()
	listener, ended := protocol.ListenBridge(inner, key), make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	g.closeFirst(sync.OnceValue(func() error {
		err := listener.Close()
		if served := <-ended; !errors.Is(served, net.ErrClosed) {
			err = errors.Join(err, served)
		}
		return err
	}))
	return key[:], nil
}

// connect waits until the guest answers, the machine ends or stalls, or bootTimeout is over.
func connect(ctx context.Context, m vm.Machine, config *guestpb.Boot) (*guest.Client, error) {
	const op = "boot guest"
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	go func() {
		check := time.NewTicker(stallEvery)
		defer check.Stop()
		defer cancel()
		for m.Stalled() == nil {
			select {
			case <-check.C:
			case <-m.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	client, err := guest.Connect(ctx, m, config)
	if err == nil {
		return client, nil
	}
	select {
	case <-m.Done():
		if m.Err() != nil { // more useful than the connection's error
			return nil, m.Err()
		}
		return nil, fault.Newf(fault.Execution, op, "", "the guest powered off before it answered").
			Advise("Its console log says why.")
	default:
	}
	if stall := m.Stalled(); stall != nil {
		return nil, fault.New(fault.Execution, op, "", stall).Advise("Free disk space on this computer, then start again.")
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fault.New(fault.Timeout, op, "", err).
			Advise("Its console log says how far it got. On a busy host, try again.")
	}
	return nil, err
}

// Shutdown powers the guest off, by force if it does not comply, and releases
// everything. It may be called more than once.
func (g *Guest) Shutdown(ctx context.Context) error {
	err := vm.Shutdown(ctx, g.Machine, offGrace, func(ctx context.Context) error {
		return g.Client.Shutdown(ctx, stopGrace)
	})
	return errors.Join(err, g.Close())
}

// Close ends the machine at once and releases everything.
func (g *Guest) Close() error {
	var all []error
	for _, end := range g.closers {
		all = append(all, end())
	}
	return errors.Join(all...)
}

func (s Spec) machineConfig() vm.Config {
	c := s.Config
	c.Arch, c.Kernel, c.Initrd = s.Image.Arch, s.Image.Kernel, s.Image.Initrd
	c.Disks = append([]vm.Disk{{Path: s.Image.Base, ReadOnly: true}}, c.Disks...)
	return c
}

// guestBoot returns the guest's boot configuration.
func (s Spec) guestBoot() *guestpb.Boot {
	b := &guestpb.Boot{Hostname: s.Hostname, Base: s.Image.BaseDigest.String(), Network: s.Network != nil}
	for _, share := range s.Shares {
		b.Mounts = append(b.Mounts, &guestpb.Mount{Tag: share.Tag, Path: []byte(cmp.Or(s.MountPoints[share.Tag], path.Join(mountPoints, share.Tag))), ReadOnly: share.ReadOnly})
	}
	return b
}
