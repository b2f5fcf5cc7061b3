package services

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

var (
	logAlice = bridge.Caller{Agent: "A", User: "agent-alice", Plugin: "rss"}
	logBob   = bridge.Caller{Agent: "B", User: "agent-bob"}
)

func logKnown(agent config.AgentID) bool { return agent == logAlice.Agent || agent == logBob.Agent }

func (l *Logs) log(t testing.TB, who bridge.Caller, message string) {
	t.Helper()
	if err := l.Append(t.Context(), who, bridge.Warn, message); err != nil {
		t.Fatal(err)
	}
}

func (l *Logs) list(t testing.TB, who bridge.Caller) (list []LogLine) {
	t.Helper()
	for line, err := range l.Read(t.Context(), who.Agent, false) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, line)
	}
	return list
}

func TestLogs(t *testing.T) {
	l := NewLogs(logKnown, unchanged)
	before := time.Now()
	l.log(t, logAlice, "one\r\n  two\n\nthree\n")
	l.log(t, logBob, "")
	list := l.list(t, logAlice)
	var texts []string
	for _, line := range list {
		texts = append(texts, line.Text)
		if line.Level != bridge.Warn || line.Source != "agent-alice/rss" || line.Time.Before(before) {
			t.Errorf("%+v", line)
		}
	}
	if !slices.Equal(texts, []string{"one", "  two", "", "three"}) {
		t.Errorf("%q", texts)
	}
	if list := l.list(t, logBob); len(list) != 1 || list[0].Source != "agent-bob" || list[0].Text != "" {
		t.Errorf("%+v", list)
	}
	nobody := bridge.Caller{Agent: "C"}
	if err := l.Append(t.Context(), nobody, bridge.Info, "x"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("nobody: %v", err)
	}
	l.Forget(logAlice.Agent)
	if list := l.list(t, logAlice); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestLogLimits(t *testing.T) {
	l := NewLogs(logKnown, unchanged)
	l.log(t, logBob, "bob's")
	for i := range MaxLogLines + 10 {
		l.log(t, logAlice, fmt.Sprint(i))
	}
	if list := l.list(t, logAlice); len(list) != MaxLogLines || list[0].Text != "10" {
		t.Errorf("%d lines, the first %+v", len(list), list[0])
	}
	l.log(t, logAlice, strings.Repeat("\n", 1_000)+"x")
	if list := l.list(t, logAlice); list[MaxLogLines-1].Text != "… and more lines" || list[MaxLogLines-maxMessageLines-2].Text != fmt.Sprint(MaxLogLines+9) {
		t.Errorf("%+v", list[MaxLogLines-maxMessageLines-2:])
	}
	l.log(t, logAlice, strings.Repeat("é", MaxLogLine)+"\xff")
	list := l.list(t, logAlice)
	if text := list[len(list)-1].Text; len(text) > MaxLogLine || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
		t.Errorf("%d bytes, …%q", len(text), text[len(text)-6:])
	}
	if list := l.list(t, logBob); len(list) != 1 {
		t.Errorf("bob's are %+v", list)
	}
}
