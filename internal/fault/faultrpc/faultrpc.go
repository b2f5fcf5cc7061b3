// Package faultrpc carries errors over Connect, with kind, text and advice.
package faultrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc/faultpb"
	"osaurus-sandbox/internal/printable"
)

// code returns the Connect code for a kind. The kind itself travels as a detail:
// several share a code.
func code(k fault.Kind) connect.Code { return cmp.Or(codes[k], connect.CodeUnknown) }

var codes = map[fault.Kind]connect.Code{
	fault.InvalidArgs: connect.CodeInvalidArgument, fault.Rejected: connect.CodeFailedPrecondition, fault.UserDenied: connect.CodePermissionDenied,
	fault.Timeout: connect.CodeDeadlineExceeded, fault.Unavailable: connect.CodeUnavailable, fault.NotFound: connect.CodeNotFound, fault.ToolNotFound: connect.CodeNotFound,
}

// kind returns the kind of an error that came without one, such as a lost connection.
func kind(c connect.Code) fault.Kind { return cmp.Or(kinds[c], fault.Execution) }

var kinds = map[connect.Code]fault.Kind{
	connect.CodeInvalidArgument: fault.InvalidArgs, connect.CodeOutOfRange: fault.InvalidArgs,
	connect.CodeFailedPrecondition: fault.Rejected, connect.CodeResourceExhausted: fault.Rejected,
	connect.CodeUnauthenticated: fault.Rejected, connect.CodePermissionDenied: fault.Rejected,
	connect.CodeDeadlineExceeded: fault.Timeout, connect.CodeNotFound: fault.NotFound,
	connect.CodeUnavailable: fault.Unavailable, connect.CodeUnimplemented: fault.Unavailable,
}

// Encode returns an error as Connect sends it.
func Encode(err error) *connect.Error { return EncodeAs(code(fault.KindOf(err)), err) }

// EncodeAs is Encode with another code than the kind's own, where HTTP has a
// better word for it.
func EncodeAs(code connect.Code, err error) *connect.Error {
	if ce, ok := errors.AsType[*connect.Error](err); ok {
		return ce
	}
	out := connect.NewError(code, errors.New(printable.Clip(err.Error())))
	if d, err := connect.NewErrorDetail(Fault(err)); err == nil {
		out.AddDetail(d)
	}
	return out
}

// Fault returns an error as a message, for streams in which Connect does not carry it.
func Fault(err error) *faultpb.Fault {
	f := &faultpb.Fault{Kind: string(fault.KindOf(err)), Cause: printable.Clip(err.Error()), Advice: printable.Clip(fault.AdviceOf(err))}
	if e, ok := errors.AsType[*fault.Error](err); ok && err == error(e) {
		f.Op, f.Subject, f.Cause = printable.Clip(e.Op), printable.Clip(e.Subject), ""
		if e.Err != nil {
			f.Cause = printable.Clip(e.Err.Error())
		}
	}
	return f
}

// Decode turns what a call returned into a fault. The other end's own words
// become its cause, bounded and free of control characters; op and subject are
// ours, and may be empty.
func Decode(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if f := said(err); f != nil {
		cause := &fault.Error{Kind: fault.Kind(f.Kind), Op: printable.Clip(f.Op), Subject: printable.Clip(f.Subject)}
		if f.Cause != "" {
			cause.Err = errors.New(printable.Clip(f.Cause))
		}
		return fault.New(cause.Kind, op, subject, cause).Advise(printable.Clip(f.Advice))
	}
	ce, ok := errors.AsType[*connect.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), ok && ce.Code() == connect.CodeDeadlineExceeded:
		return fault.New(fault.Timeout, op, subject, context.DeadlineExceeded)
	case errors.Is(err, context.Canceled), ok && ce.Code() == connect.CodeCanceled:
		return fault.New(fault.Execution, op, subject, context.Canceled)
	case ok && ce.Code() == connect.CodeInternal && !connect.IsWireError(err):
		return fault.New(fault.Unavailable, op, subject, fmt.Errorf("the connection broke: %w", innermost(ce)))
	case ok && ce.Code() == connect.CodeResourceExhausted && connect.IsWireError(err): // before any handler of ours
		return fault.New(fault.InvalidArgs, op, subject, errors.New(printable.Clip(ce.Message()))).
			Advise("Put what is long into a file, or send it in parts.")
	case ok:
		return fault.New(kind(ce.Code()), op, subject, errors.New(printable.Clip(ce.Message())))
	}
	return fault.New(fault.Unavailable, op, subject, err)
}

// Broke returns what broke a call's connection, so that its outcome is unknown. It
// returns nil for other errors.
func Broke(err error) error {
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok || connect.IsWireError(err) {
		return nil
	}
	switch ce.Code() {
	case connect.CodeInternal, connect.CodeUnavailable, connect.CodeUnknown, connect.CodeCanceled:
		return innermost(ce)
	}
	return nil
}

// innermost returns the first cause of an error.
func innermost(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

// Answered reports whether an error is the other end's answer, rather than a
// failure to reach it.
func Answered(err error) bool { return said(err) != nil }

// said returns the fault that the other end put into its answer.
func said(err error) *faultpb.Fault {
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok || !connect.IsWireError(err) {
		return nil
	}
	for _, d := range ce.Details() {
		v, err := d.Value()
		if err != nil {
			continue
		}
		if f, ok := v.(*faultpb.Fault); ok && slices.Contains(fault.Kinds(), fault.Kind(f.Kind)) {
			return f
		}
	}
	return nil
}
