package hosttest

import "osaurus-sandbox/supervisor"

// terminals are there on Linux only, where the guest's own code runs.
type terminals struct{}

func newTerminals(*Guest) (*terminals, error) { return nil, nil }

func (*terminals) close() error { return nil }

// Shells are none.
func (*Guest) Shells() supervisor.Shells { return nil }

// Jobs are none.
func (*Guest) Jobs() supervisor.Jobs { return nil }

// Files are none.
func (*Guest) Files() supervisor.Files { return nil }
