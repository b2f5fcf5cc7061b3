package services

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/events"
)

const (
	MaxLogLines     = 2_000   // kept of each agent
	MaxLogBytes     = 1 << 20 // kept of each agent
	MaxLogLine      = 8 << 10 // longer lines are cut and marked as cut
	maxMessageLines = 200     // of one message; the rest is left out
)

// LogLine is a line that a program logged. Text may contain any character but a line feed.
type LogLine struct {
	Seq    events.Seq // counts the lines of the agent
	Time   time.Time
	Level  bridge.Level
	Source string // the Linux user, for a plugin with "/" and its ID
	Text   string
}

// Logs keeps the newest lines of all agents in memory. It implements bridge.Log.
type Logs struct {
	known func(config.AgentID) bool
	clean Clean

	mu   sync.Mutex
	logs map[config.AgentID]*agentLog
}

// agentLog holds the lines of an agent. Logs.mu guards it.
type agentLog struct {
	lines   []LogLine
	bytes   int
	last    events.Seq
	changed notify.Notifier
}

var _ bridge.Log = (*Logs)(nil)

// NewLogs returns empty logs. It asks known whether an agent exists.
func NewLogs(known func(config.AgentID) bool, clean Clean) *Logs {
	return &Logs{known: known, clean: clean, logs: map[config.AgentID]*agentLog{}}
}

// Append adds the lines of a message.
func (l *Logs) Append(ctx context.Context, who bridge.Caller, level bridge.Level, message string) error {
	source := string(who.User)
	if who.Plugin != "" {
		source += "/" + string(who.Plugin)
	}
	message = l.clean(ctx, who.Agent, message)
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.of(who.Agent)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	n := 0
	for text := range strings.SplitSeq(strings.TrimRight(message, "\r\n"), "\n") {
		if n++; n > maxMessageLines {
			text = "… and more lines"
		}
		r.last++
		// Cloned, so that a short line does not keep a long message in memory.
		text = strings.Clone(printable.Cut(strings.TrimSuffix(text, "\r"), MaxLogLine))
		r.lines = append(r.lines, LogLine{r.last, now, level, source, text})
		r.bytes += len(text)
		if n > maxMessageLines {
			break
		}
	}
	gone := 0
	for ; len(r.lines)-gone > MaxLogLines || r.bytes > MaxLogBytes; gone++ {
		r.bytes -= len(r.lines[gone].Text)
	}
	r.lines = slices.Delete(r.lines, 0, gone)
	r.changed.Notify()
	return nil
}

// of returns the log of an agent. The caller holds mu.
func (l *Logs) of(agent config.AgentID) (*agentLog, error) {
	if r := l.logs[agent]; r != nil {
		return r, nil
	}
	if !l.known(agent) {
		return nil, fault.New(fault.NotFound, "find log of agent", string(agent), nil).Advise(listAgents)
	}
	r := &agentLog{}
	l.logs[agent] = r
	return r, nil
}

// Forget drops the log of a deleted agent. Readers that follow it end with an error.
func (l *Logs) Forget(agent config.AgentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.logs[agent]; r != nil {
		r.changed.Notify()
	}
	delete(l.logs, agent)
}

// Read yields the lines of an agent. With follow it continues with new lines until
// the context ends. A slow reader can miss lines: Seq shows how many.
func (l *Logs) Read(ctx context.Context, agent config.AgentID, follow bool) iter.Seq2[LogLine, error] {
	return events.Follow(ctx, events.Seq(0), follow, func(_ context.Context, after events.Seq) ([]LogLine, events.Seq, <-chan struct{}, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		r, err := l.of(agent)
		if err != nil {
			return nil, 0, nil, err
		}
		first := slices.IndexFunc(r.lines, func(line LogLine) bool { return line.Seq > after })
		if first < 0 {
			return nil, after, r.changed.Next(), nil
		}
		return slices.Clone(r.lines[first:]), r.last, r.changed.Next(), nil
	})
}
