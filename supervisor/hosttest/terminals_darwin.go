package hosttest

import (
	"context"
	"errors"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
)

// terminals exist on Linux only, where the guest's own code runs.
type terminals struct{}

func newTerminals(*Guest) (*terminals, error) { return nil, nil }

func (*terminals) close() error { return nil }

// ConnectPort fails.
func (*Guest) ConnectPort(context.Context, config.LinuxUser, config.Port) (engine.Connection, error) {
	return nil, errors.ErrUnsupported
}

// Room returns nil.
func (*Guest) Room(config.LinuxUser) engine.Room { return nil }
