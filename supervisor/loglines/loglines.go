// Package loglines keeps the newest lines that programs of each agent have logged.
package loglines

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
	// MaxLines is how many lines of an agent are kept, as the reference does it, and
	// MaxBytes how long they are in all: fifty agents that log all they can fill
	// fifty megabytes. The oldest ones go.
	MaxLines = 2_000
	MaxBytes = 1 << 20
	// MaxLine bounds a line. Its end is cut, and it shows that.
	MaxLine = 8 << 10
	// maxMessage is how many lines one message makes. The rest of it is left out.
	maxMessage = 200
)

// Line is what a program has logged. What is in Text may be any character but a
// line feed.
type Line struct {
	Seq    events.Seq // of the agent; upwards
	Time   time.Time
	Level  bridge.Level
	Source string // the agent's Linux user, with the plugin behind a slash
	Text   string
}

// Lines are the newest lines of all agents, in memory. Lines implements bridge.Log.
type Lines struct {
	known func(config.AgentID) bool

	mu    sync.Mutex // held for moments only
	rings map[config.AgentID]*ring
}

// ring is what is kept of an agent. Lines.mu guards it.
type ring struct {
	lines []Line
	bytes int
	last  events.Seq
	told  notify.Bell
}

var _ bridge.Log = (*Lines)(nil)

// New returns an empty log, for the agents that are known.
func New(known func(config.AgentID) bool) *Lines {
	return &Lines{known: known, rings: map[config.AgentID]*ring{}}
}

// Append keeps a message, each line of it as one. It waits for nothing.
func (l *Lines) Append(_ context.Context, who bridge.Caller, level bridge.Level, message string) error {
	source := string(who.User)
	if who.Plugin != "" {
		source += "/" + string(who.Plugin)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.ring(who.Agent)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	n := 0
	for text := range strings.SplitSeq(strings.TrimRight(message, "\r\n"), "\n") {
		if n++; n > maxMessage {
			text = "… and more lines"
		}
		r.last++
		// A copy: a short line must not hold on to a message of megabytes.
		text = strings.Clone(printable.Cut(strings.TrimSuffix(text, "\r"), MaxLine))
		r.lines = append(r.lines, Line{r.last, now, level, source, text})
		r.bytes += len(text)
		if n > maxMessage {
			break
		}
	}
	gone := 0
	for ; len(r.lines)-gone > MaxLines || r.bytes > MaxBytes; gone++ {
		r.bytes -= len(r.lines[gone].Text)
	}
	r.lines = slices.Delete(r.lines, 0, gone)
	r.told.Ring()
	return nil
}

// ring is an agent's, made when it is first asked for. It is called with mu held.
func (l *Lines) ring(agent config.AgentID) (*ring, error) {
	if r := l.rings[agent]; r != nil {
		return r, nil
	}
	if !l.known(agent) {
		return nil, fault.New(fault.NotFound, "find log of agent", string(agent), nil).Advise("See `osaurus-sandbox agent list`.")
	}
	r := &ring{}
	l.rings[agent] = r
	return r, nil
}

// Forget drops what an agent that was deleted has logged. Who follows it is told that
// there is no such agent.
func (l *Lines) Forget(agent config.AgentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rings[agent]; r != nil {
		r.told.Ring()
	}
	delete(l.rings, agent)
}

// Read yields the lines of an agent, and with follow those that come, until the
// context's end. A reader that is too slow misses lines: their numbers say how many.
func (l *Lines) Read(ctx context.Context, agent config.AgentID, follow bool) iter.Seq2[Line, error] {
	return events.Follow(ctx, events.Seq(0), follow, func(_ context.Context, after events.Seq) ([]Line, events.Seq, <-chan struct{}, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		r, err := l.ring(agent)
		if err != nil {
			return nil, 0, nil, err
		}
		first := slices.IndexFunc(r.lines, func(line Line) bool { return line.Seq > after })
		if first < 0 {
			return nil, after, r.told.Next(), nil
		}
		return slices.Clone(r.lines[first:]), r.last, r.told.Next(), nil
	})
}
