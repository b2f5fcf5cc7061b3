package tools

import (
	"errors"
	"fmt"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// Failure is an error with what a model needs to mend its call.
type Failure struct {
	Kind fault.Kind
	// Message says what went wrong and what to do next.
	Message string
	// Field is the argument that is to blame, and Expected what it should be.
	Field, Expected string
	// Final says that the same call will fail again, though its kind often
	// passes; Again the contrary.
	Final, Again bool
	// More is what else is known, under names of its own.
	More map[string]any
	// Cause is what it was made of; it may be nil.
	Cause error
}

func (f *Failure) Error() string { return f.Message }

func (f *Failure) Unwrap() error { return f.Cause }

// retryable says whether the same call may succeed at another time, or a
// mended one now.
func (f *Failure) retryable() bool {
	switch f.Kind {
	case fault.InvalidArgs, fault.Timeout, fault.Execution, fault.Unavailable:
		return !f.Final
	}
	return f.Again
}

// wrongArgument is the failure of an argument.
func wrongArgument(field, expected, format string, args ...any) *Failure {
	return &Failure{Kind: fault.InvalidArgs, Field: field, Expected: expected, Message: fmt.Sprintf(format, args...)}
}

// failureOf is an error as a model is told it: its kind, its text, and its
// advice after that.
func failureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	message := err.Error()
	if advice := fault.AdviceOf(err); advice != "" {
		message += ". " + advice
	}
	_, again := errors.AsType[*bridge.Limited](err)
	return &Failure{Kind: fault.KindOf(err), Message: message, Again: again, Cause: err}
}
