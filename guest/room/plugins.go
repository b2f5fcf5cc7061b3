//go:build linux

package room

import (
	"errors"
	"net/netip"
	"os"
	"sync"

	"osaurus-sandbox/guest/network"
)

// pluginNetworks are the network namespaces of a room's plugins, by address. The gateway tells by the
// address which plugin a packet comes from.
type pluginNetworks struct {
	modulesLoaded <-chan struct{}

	mu     sync.Mutex
	made   map[netip.Addr]*os.File
	closed bool
}

// get returns the namespace of an address, and makes it the first time.
func (p *pluginNetworks) get(address netip.Addr) (*os.File, error) {
	<-p.modulesLoaded
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the room has ended")
	}
	if f := p.made[address]; f != nil {
		return f, nil
	}
	cable := network.PluginCable(address)
	if err := network.Disconnect(cable); err != nil {
		return nil, err
	}
	f, err := network.NewNamespace()
	if err != nil {
		return nil, err
	}
	if err := network.Connect(cable, address, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p.made[address] = f
	return f, nil
}

// close removes all cables.
func (p *pluginNetworks) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for address, f := range p.made {
		err = errors.Join(err, f.Close(), network.Disconnect(network.PluginCable(address)))
	}
	clear(p.made)
	return err
}
