package machine

import "osaurus-sandbox/config"

// Fleet are the machines of a home. All agents share one so far; whoever needs
// the machine of an agent asks here.
type Fleet struct{ shared *Machine }

// NewFleet returns a fleet whose agents share a machine.
func NewFleet(shared *Machine) *Fleet { return &Fleet{shared} }

// For returns the machine that an agent lives in.
func (f *Fleet) For(config.AgentID) *Machine { return f.shared }

// Shared returns the machine that all agents share.
func (f *Fleet) Shared() *Machine { return f.shared }
