//go:build linux

package process

import (
	"errors"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
)

// spot is a Place without namespaces.
type spot struct{ refuse error }

func (s spot) Enter() error                  { return s.refuse }
func (spot) Credential() *syscall.Credential { return nil }
func (spot) Cgroup() string                  { return "" }

func TestPlaceThatCannotBeEntered(t *testing.T) {
	m, err := NewManager(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	closed := errors.New("closed")
	if _, err := m.Start(Spec{Args: []string{"/bin/true"}, Dir: "/", Place: spot{closed}}); fault.KindOf(err) != fault.Unavailable || !errors.Is(err, closed) {
		t.Error(err)
	}
}
