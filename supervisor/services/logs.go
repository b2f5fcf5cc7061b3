package services

import (
	"context"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/events"
)

const (
	MaxLogLines     = 2_000   // kept of each agent
	MaxLogLine      = 2 << 10 // bytes; longer lines are cut and marked as cut
	maxMessageLines = 200     // of one message; the rest is left out
)

// LogLine is a line that a program logged. Text may contain any character but a line feed.
type LogLine struct {
	Time   time.Time
	Level  bridge.Level
	Source string // the Linux user, for a plugin with "/" and its ID
	Text   string
}

// Logs keeps the newest lines of all agents in memory. It implements bridge.Log.
type Logs struct {
	*events.Rings[LogLine]
	clean Clean
}

var _ bridge.Log = (*Logs)(nil)

// NewLogs returns empty logs. It asks known whether an agent exists.
func NewLogs(known func(config.AgentID) bool, clean Clean) *Logs {
	return &Logs{events.NewRings[LogLine](MaxLogLines, known), clean}
}

// Append adds the lines of a message.
func (l *Logs) Append(ctx context.Context, who bridge.Caller, level bridge.Level, message string) error {
	if err := l.Check(who.Agent); err != nil {
		return err
	}
	source := string(who.User)
	if who.Plugin != "" {
		source += "/" + string(who.Plugin)
	}
	message = l.clean(ctx, who.Agent, message)
	now := time.Now().UTC()
	n := 0
	for text := range strings.SplitSeq(strings.TrimRight(message, "\r\n"), "\n") {
		if n++; n > maxMessageLines {
			text = "… and more lines"
		}
		// Cloned, so that a short line does not keep a long message in memory.
		text = strings.Clone(printable.Cut(strings.TrimSuffix(text, "\r"), MaxLogLine))
		l.Add(who.Agent, func(events.Seq) LogLine { return LogLine{now, level, source, text} })
		if n > maxMessageLines {
			break
		}
	}
	return nil
}
