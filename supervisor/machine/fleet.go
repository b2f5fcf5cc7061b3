package machine

import "osaurus-sandbox/config"

// Fleet is the machines of a home. So far all agents share one; callers that need
// an agent's machine ask here.
type Fleet struct{ shared *Machine }

// NewFleet returns a fleet whose agents share a machine.
func NewFleet(shared *Machine) *Fleet { return &Fleet{shared} }

// For returns the machine that an agent lives in.
func (f *Fleet) For(config.AgentID) *Machine { return f.shared }

// All returns the machines.
func (f *Fleet) All() []*Machine { return []*Machine{f.shared} }

// Shared returns the machine that all agents share.
func (f *Fleet) Shared() *Machine { return f.shared }
