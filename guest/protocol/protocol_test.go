package protocol

import (
	"strings"
	"testing"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

func TestNegotiate(t *testing.T) {
	for _, tc := range []struct {
		min, max, want uint32
		kind           fault.Kind
	}{
		{3, 3, 3, ""}, {1, 9, 3, ""}, {4, 9, 0, fault.Rejected}, {2, 2, 0, fault.Rejected}, {0, 0, 0, fault.InvalidArgs}, {3, 2, 0, fault.InvalidArgs},
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

// A folder that is asked for is one from the root on, or from the usual one.
func TestFolder(t *testing.T) {
	for asked, want := range map[string]string{
		"": "/home/alice", ".": "/home/alice", "src": "/home/alice/src", "src/": "/home/alice/src", "../bob": "/home/bob", "../../../..": "/",
		"/": "/", "/tmp": "/tmp", "/tmp/": "/tmp/",
	} {
		if got := Folder("/home/alice", []byte(asked)); got != want {
			t.Errorf("%q is %q, not %q", asked, got, want)
		}
	}
}

// FuzzCheck: what passes the checks keeps their promises.
func FuzzCheck(f *testing.F) {
	f.Add("sh", "A=1", "/tmp", "tag", "/workspace", "box", "10.0.2.15/24", "10.0.2.2")
	f.Add("", "=", "..", "a b", "/", "-", "::1/64", "x")
	f.Fuzz(func(t *testing.T, arg, env, dir, tag, path, host, addr, gw string) {
		s := &guestpb.Start{Args: [][]byte{[]byte(arg)}, Env: [][]byte{[]byte(env)}, Dir: []byte(dir)}
		if CheckStart(s) == nil && (arg == "" || strings.Contains(arg+env+dir, "\x00") || !strings.Contains(env, "=") || Folder("/home", s.Dir)[0] != '/') {
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
