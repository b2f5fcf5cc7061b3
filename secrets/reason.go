package secrets

import (
	"fmt"

	"osaurus-sandbox/internal/fault"
)

// Reason says why a store failed; test for it with errors.Is(err, secrets.Locked).
type Reason string

const (
	Missing Reason = "no such secret"
	Locked  Reason = "the store is locked"
	Denied  Reason = "access was denied"
	Absent  Reason = "the store is not available"
)

func (r Reason) Error() string { return string(r) }

// Kind returns the error kind for the reason.
func (r Reason) Kind() fault.Kind {
	switch r {
	case Missing:
		return fault.NotFound
	case Denied:
		return fault.UserDenied
	}
	return fault.Unavailable
}

// Fault returns an error with this reason. The cause may be nil.
func (r Reason) Fault(op, subject string, cause error) *fault.Error {
	err := error(r)
	if cause != nil {
		err = fmt.Errorf("%w: %w", r, cause)
	}
	return fault.New(r.Kind(), op, subject, err)
}

// NoSuch returns the error for a missing secret.
func NoSuch(op string, key Key) error {
	return Missing.Fault(op, key.String(), nil).Advise("List the secrets: osaurus-sandbox secret list " + string(key.Agent))
}
