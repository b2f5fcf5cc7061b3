//go:build linux

package process

import (
	"testing"
)

func TestMark(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n": "", "0::/rooms/agent-alice/17\n": "", "0::/rooms/agent-alice/17.rss-watch\n": "rss-watch",
		"0::/rooms/agent-alice/17.a.b_c\n": "a.b_c", "0::/rooms/.init/17\n": "", "0::/rooms/agent-alice\n": "", "0::/user.slice\n": "",
		"12:pids:/x/3.other\n0::/rooms/agent-alice/17.rss\n": "rss",
	} {
		if got, err := markIn([]byte(text)); got != want || err != nil {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	if got, err := markIn([]byte("1:pids:/17.rss\n")); err == nil {
		t.Errorf("a process without a group of cgroup2 is of %q", got)
	}
}
