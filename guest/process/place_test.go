//go:build linux

package process

import "syscall"

// spot is a Place without namespaces.
type spot struct{}

func (spot) Enter() error                    { return nil }
func (spot) Credential() *syscall.Credential { return nil }
func (spot) Cgroup() string                  { return "" }
func (spot) Mark() string                    { return "" }
