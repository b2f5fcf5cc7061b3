//go:build linux

package room

import (
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// PluginPlace is Place for a program of a plugin. The relay tells it from the agent's
// others, and it reaches into none of them. Offline it has no network but a loopback of
// its own.
func (r *Room) PluginPlace(plugin config.PluginID, offline bool) process.Place {
	return pluginPlace{place{room: r}, plugin, offline}
}

// pluginPlace is where a plugin's programs run.
type pluginPlace struct {
	place
	plugin  config.PluginID
	offline bool
}

// Mark implements process.Marked.
func (p pluginPlace) Mark() string { return string(p.plugin) }

// Enter implements process.Place.
func (p pluginPlace) Enter() error {
	if err := p.join(); err != nil {
		return err
	}
	if p.offline {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("leave the network: %w", err)
		}
		if err := network.Loopback(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
	}
	// Through another program of the agent it could ask as that one.
	if err := domain(); err != nil {
		return fault.New(fault.Unavailable, "run plugin", string(p.plugin), err).Advise("The guest's kernel needs Landlock, of Linux 5.19 or later.")
	}
	return p.confine()
}
