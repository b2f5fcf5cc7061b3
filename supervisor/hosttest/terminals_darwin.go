package hosttest

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
)

// terminals exist on Linux only, where the guest's own code runs.
type terminals struct{}

func newTerminals(*Guest) (*terminals, error) { return nil, nil }

func (*terminals) close() error { return nil }

// Room returns nil.
func (*Guest) Room(config.LinuxUser) engine.Room { return nil }
