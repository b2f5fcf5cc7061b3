package bridgetest

import (
	"net"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
)

// As returns a listener whose connections all come from one user, and from a program of the plugin
// unless that is empty.
func As(l net.Listener, uid uint32, plugin config.PluginID) net.Listener { return from{l, uid, plugin} }

type from struct {
	net.Listener
	uid    uint32
	plugin config.PluginID
}

func (f from) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	return peer{c, f.uid, f.plugin}, err
}

// Conn returns a Peer with this uid.
func Conn(c net.Conn, uid uint32) bridge.Peer { return peer{Conn: c, uid: uid} }

type peer struct {
	net.Conn
	uid    uint32
	plugin config.PluginID
}

func (p peer) UID() uint32             { return p.uid }
func (p peer) Plugin() config.PluginID { return p.plugin }
