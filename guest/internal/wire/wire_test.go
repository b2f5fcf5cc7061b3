package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"connectrpc.com/connect"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/guestpb"
)

func TestNegotiate(t *testing.T) {
	for _, tc := range []struct {
		min, max, want uint32
		kind           fault.Kind
	}{
		{1, 1, 1, ""}, {1, 9, 1, ""}, {2, 9, 0, fault.Rejected}, {0, 0, 0, fault.InvalidArgs}, {3, 2, 0, fault.InvalidArgs},
	} {
		v, err := Negotiate(tc.min, tc.max)
		if v != tc.want || (err != nil) != (tc.kind != "") || err != nil && fault.KindOf(err) != tc.kind {
			t.Errorf("%d–%d: %d %v", tc.min, tc.max, v, err)
		}
		if tc.kind == fault.Rejected && fault.AdviceOf(err) == "" {
			t.Errorf("%d–%d: no advice", tc.min, tc.max)
		}
	}
}

func TestKey(t *testing.T) {
	k, err := ParseKey([]byte(strings.Repeat("k", KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseKeyHeader(k.Header()); err != nil || !got.Equal(k) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "zz", k.Header()[1:], k.Header() + "0", strings.Repeat("z", 2*KeySize)} {
		if _, err := ParseKeyHeader(bad); fault.KindOf(err) != fault.Rejected {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

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

// What the guest has not said is told by what went wrong on the way.
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
		{connect.NewError(connect.CodeInternal, errors.New("x")), fault.Execution, nil},
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

func FuzzClip(f *testing.F) {
	f.Add("plain")
	f.Add("a\x1b[2Jb\r\n\x00\x7f\xff")
	f.Add(strings.Repeat("ü", MaxText))
	f.Fuzz(func(t *testing.T, s string) {
		c := Clip(s)
		if len(c) > 2*MaxText+8 || !utf8.ValidString(c) || strings.ContainsFunc(c, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q became %q", s, c)
		}
	})
}

// FuzzCheck: what passes the checks keeps their promises.
func FuzzCheck(f *testing.F) {
	f.Add("sh", "A=1", "/tmp", "tag", "/workspace", "box", "10.0.2.15/24", "10.0.2.2")
	f.Add("", "=", "..", "a b", "/", "-", "::1/64", "x")
	f.Fuzz(func(t *testing.T, arg, env, dir, tag, path, host, addr, gw string) {
		s := &guestpb.Start{Args: [][]byte{[]byte(arg)}, Env: [][]byte{[]byte(env)}, Dir: []byte(dir)}
		if CheckStart(s) == nil && (arg == "" || strings.Contains(arg+env+dir, "\x00") || !strings.Contains(env, "=") || dir != "" && dir[0] != '/') {
			t.Errorf("%q passed", s)
		}
		b := &guestpb.Boot{
			Hostname: host, Mounts: []*guestpb.Mount{{Tag: tag, Path: []byte(path)}},
			Network: &guestpb.Network{Kind: guestpb.Network_KIND_STATIC, Address: addr, Gateway: gw},
		}
		if CheckBoot(b) == nil && (strings.ContainsAny(host+tag, "/ \n\x00") || strings.Contains(path+"/", "/../") || path == "/" || len(tag) > MaxTag) {
			t.Errorf("%q passed", b)
		}
	})
}
