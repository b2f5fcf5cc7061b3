package hosttest

import "osaurus-sandbox/supervisor"

// shells are there on Linux only.
type shells struct{}

func newShells(*Guest) (*shells, error) { return nil, nil }

func (*shells) close() error { return nil }

// Shells are none.
func (*Guest) Shells() supervisor.Shells { return nil }
