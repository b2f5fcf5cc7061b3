package secrets

import (
	"fmt"

	"osaurus-sandbox/internal/fault"
)

// Reason is why a store gave nothing: errors.Is(err, secrets.Locked).
type Reason string

const (
	Missing Reason = "there is no such secret"
	Locked  Reason = "the store is locked"
	Denied  Reason = "access was denied"
	Absent  Reason = "the store is not there"
)

func (r Reason) Error() string { return string(r) }

// Kind is the kind of fault that a reason is.
func (r Reason) Kind() fault.Kind {
	switch r {
	case Missing:
		return fault.NotFound
	case Denied:
		return fault.UserDenied
	}
	return fault.Unavailable
}

// Fault is the error for a reason. The cause, which may be nil, says more.
func (r Reason) Fault(op, subject string, cause error) *fault.Error {
	err := error(r)
	if cause != nil {
		err = fmt.Errorf("%w: %w", r, cause)
	}
	return fault.New(r.Kind(), op, subject, err)
}

// NoSuch is the error for a secret that is not there.
func NoSuch(op string, key Key) error {
	return Missing.Fault(op, key.String(), nil).Advise("See what there is: osaurus-sandbox secret list " + string(key.Agent))
}
