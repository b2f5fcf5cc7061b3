package protocol

import (
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

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
