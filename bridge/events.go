package bridge

import (
	"encoding/json"
	"strings"
	"time"

	"osaurus-sandbox/config"
)

// Topics matches types of events: "rss.new_item", or by prefix "rss.*".
type Topics string

// ParseTopics parses a topic, or a prefix followed by "*".
func ParseTopics(text string) (Topics, error) {
	if prefix, all := strings.CutSuffix(text, "*"); !all || prefix != "" {
		if _, err := ParseTopic(prefix); err != nil {
			return "", err
		}
	}
	return Topics(text), nil
}

// Holds reports whether a topic matches.
func (t Topics) Holds(topic Topic) bool {
	prefix, all := strings.CutSuffix(string(t), "*")
	return string(topic) == prefix || all && strings.HasPrefix(string(topic), prefix)
}

// EventSeq numbers the events of all agents. Numbers are never reused.
type EventSeq int64

// Event is an event that a program sent.
type Event struct {
	Seq     EventSeq
	Time    time.Time
	Topic   Topic
	Agent   config.AgentID
	Source  string // "sandbox:" and the agent's Linux user
	Payload json.RawMessage
	// Gap is set instead of the other fields if events are missing.
	Gap *EventGap
}

// EventGap is a range of numbers that are not all kept any more. Those that are follow.
type EventGap struct{ From, To EventSeq }

// EventFilter selects events.
type EventFilter struct {
	// Agent selects what this agent sees: its own and shared events. Empty selects all.
	Agent config.AgentID
	After EventSeq // selects greater numbers
	// Topics selects events that match one of them. None selects all.
	Topics []Topics
}
