package faultrpc

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/internal/fault"
)

// Every kind has a code of its own family, so that a client that does not know
// our detail still learns what sort of failure it was.
func TestCodes(t *testing.T) {
	for _, k := range fault.Kinds() {
		e := Encode(fault.New(k, "do", "it", errors.New("because")).Advise("Do that."))
		want := k
		switch k {
		case fault.UserDenied:
			want = fault.Rejected
		case fault.ToolNotFound:
			want = fault.NotFound
		}
		if got := kind(e.Code()); got != want {
			t.Errorf("%s travels as %v, which is %s", k, e.Code(), got)
		}
		if len(e.Details()) != 1 {
			t.Errorf("%s: %d details", k, len(e.Details()))
		}
	}
}

// Errors without a detail get their kind from the code or the cause.
func TestDecodeWithoutDetail(t *testing.T) {
	for _, tc := range []struct {
		err  error
		kind fault.Kind
		is   error
	}{
		{connect.NewError(connect.CodeDeadlineExceeded, errors.New("x")), fault.Timeout, context.DeadlineExceeded},
		{fmt.Errorf("call: %w", context.DeadlineExceeded), fault.Timeout, context.DeadlineExceeded},
		{connect.NewError(connect.CodeCanceled, errors.New("x")), fault.Execution, context.Canceled},
		{connect.NewError(connect.CodeUnavailable, errors.New("x")), fault.Unavailable, nil},
		{connect.NewError(connect.CodeResourceExhausted, errors.New("x")), fault.Rejected, nil},
		{connect.NewError(connect.CodeInternal, errors.New("x")), fault.Unavailable, nil}, // a stream that broke off
		{errors.New("connection refused"), fault.Unavailable, nil},
	} {
		err := Decode("call", "it", tc.err)
		if fault.KindOf(err) != tc.kind || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%v: %v of kind %s, want %s", tc.err, err, fault.KindOf(err), tc.kind)
		}
	}
	if Decode("call", "it", nil) != nil {
		t.Error("success is an error")
	}
}
