package hosttest

import "osaurus-sandbox/supervisor/machine"

// terminals are there on Linux only, where the guest's own code runs.
type terminals struct{}

func newTerminals(*Guest) (*terminals, error) { return nil, nil }

func (*terminals) close() error { return nil }

// Shells are none.
func (*Guest) Shells() machine.Shells { return nil }

// Jobs are none.
func (*Guest) Jobs() machine.Jobs { return nil }

// Files are none.
func (*Guest) Files() machine.Files { return nil }
