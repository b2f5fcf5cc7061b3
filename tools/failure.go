package tools

import (
	"errors"
	"fmt"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// Failure is an error with what a model needs to correct its call.
type Failure struct {
	Kind fault.Kind
	// Message says what went wrong and what to do next.
	Message string
	// Field is the argument at fault. Expected describes a valid value.
	Field, Expected string
	// Final marks a failure that the same call will repeat even though its kind is often
	// temporary. Again marks the opposite.
	Final, Again bool
	// More has extra fields for the failure.
	More map[string]any
	// Cause is the wrapped error; it may be nil.
	Cause error
}

func (f *Failure) Error() string { return f.Message }

func (f *Failure) Unwrap() error { return f.Cause }

// retryable reports whether the same call may succeed later, or a corrected one now.
func (f *Failure) retryable() bool {
	switch f.Kind {
	case fault.InvalidArgs, fault.Timeout, fault.Execution, fault.Unavailable:
		return !f.Final
	}
	return f.Again
}

// wrongArgument returns a failure of kind InvalidArgs for an argument.
func wrongArgument(field, expected, format string, args ...any) *Failure {
	return &Failure{Kind: fault.InvalidArgs, Field: field, Expected: expected, Message: fmt.Sprintf(format, args...)}
}

// failureOf converts an error for a model. The message ends with the error's advice.
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
