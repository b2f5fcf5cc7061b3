package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestErrorSaysWhatToWhatAndWhy(t *testing.T) {
	cause := errors.New("it is full")
	for _, c := range []struct {
		err  *fault.Error
		want string
	}{
		{fault.New(fault.Unavailable, "write file", "/a", cause), "write file /a: it is full"},
		{fault.New(fault.Unavailable, "write file", "", cause), "write file: it is full"},
		{fault.New(fault.NotFound, "", "/a", nil), "/a"},
		{fault.New(fault.Rejected, "", "", cause), "it is full"},
		{fault.New(fault.Rejected, "", "", nil), "rejected"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%+v says %q, want %q", *c.err, got, c.want)
		}
	}
}

func TestKindOfIsTheOutermost(t *testing.T) {
	inner := fault.New(fault.NotFound, "open", "/a", nil)
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{inner, fault.NotFound},
		{fmt.Errorf("while starting: %w", inner), fault.NotFound},
		{fault.New(fault.Rejected, "start", "", inner), fault.Rejected},
		{errors.Join(errors.New("plain"), inner), fault.NotFound},
		{fmt.Errorf("ask: %w", context.DeadlineExceeded), fault.Timeout},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), fault.Timeout},
		{&fs.PathError{Op: "open", Path: "/a", Err: fs.ErrNotExist}, fault.NotFound},
		{errors.New("plain"), fault.Execution},
	} {
		if got := fault.KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v) = %s, want %s", c.err, got, c.want)
		}
	}
}

// Errors of a full disk get advice, wherever they come from.
func TestAdviceForFullDisk(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "/a", Err: syscall.ENOSPC}
	for _, err := range []error{full, fault.New(fault.Execution, "build image", "", errors.Join(errors.New("x"), full))} {
		if got := fault.AdviceOf(err); !strings.Contains(got, "room") {
			t.Errorf("%v has the advice %q", err, got)
		}
	}
	if got := fault.AdviceOf(fault.New(fault.Execution, "write", "", full).Advise("Delete a job.")); got != "Delete a job." {
		t.Errorf("what was advised is now %q", got)
	}
}

func TestWrapKeepsKindAndCause(t *testing.T) {
	cause := fault.Newf(fault.Rejected, "open", "/a", "100%% of %w", syscall.EPERM)
	err := fault.Wrap("read settings", "/b", cause)
	if err.Kind != fault.Rejected || !errors.Is(err, syscall.EPERM) || err.Error() != "read settings /b: open /a: 100% of operation not permitted" {
		t.Errorf("%s: %v", err.Kind, err)
	}
}

func TestAdviceOfIsTheFirst(t *testing.T) {
	inner := fault.New(fault.NotFound, "open", "/a", nil).Advise("Make it.")
	outer := fault.New(fault.Rejected, "start", "", fmt.Errorf("while: %w", inner))
	if got := fault.AdviceOf(outer); got != "Make it." {
		t.Errorf("advice %q of the cause is lost", got)
	}
	if got := fault.AdviceOf(outer.Advise("Stop it first.")); got != "Stop it first." {
		t.Errorf("advice is %q", got)
	}
	if outer.Advice != "" {
		t.Error("Advise changed the error it was called on")
	}
	if got := fault.AdviceOf(errors.New("plain")) + fault.AdviceOf(nil); got != "" {
		t.Errorf("advice %q out of nowhere", got)
	}
}

func TestKindsAreAClosedList(t *testing.T) {
	// They are on the wire: none may change its name.
	want := []fault.Kind{"invalid_args", "rejected", "user_denied", "timeout", "execution_error", "unavailable", "not_found", "tool_not_found"}
	if got := fault.Kinds(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the kinds are %v, want %v", got, want)
	}
}
