package bridge

import (
	"regexp"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

type (
	// ConfigKey is what a plugin keeps a value under: "last_sync".
	ConfigKey string
	// Topic is the type of an event that programs tell: "rss.new_item".
	Topic string
	// Level is how much a line of a log matters.
	Level string
)

// The levels of lines.
const (
	Debug  Level = "debug"
	Info   Level = "info"
	Warn   Level = "warn"
	Error  Level = "error"
	Stdout Level = "stdout"
)

var (
	configKeyText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	topicText     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$`)
)

// ParseConfigKey reads what a plugin keeps a value under.
func ParseConfigKey(text string) (ConfigKey, error) {
	if !configKeyText.MatchString(text) {
		return "", notAllowed("read config key", text, "It is 1 to 128 letters, digits, dots, dashes and underscores.")
	}
	return ConfigKey(text), nil
}

// ParseTopic reads the type of an event.
func ParseTopic(text string) (Topic, error) {
	if !topicText.MatchString(text) {
		return "", notAllowed("read event type", text, "It is 1 to 128 letters, digits, dots, colons, dashes and underscores.")
	}
	return Topic(text), nil
}

// ParseLevel reads how much a line matters.
func ParseLevel(text string) (Level, error) {
	switch l := Level(text); l {
	case Debug, Info, Warn, Error, Stdout:
		return l, nil
	}
	return "", notAllowed("read level", text, "It is debug, info, warn, error or stdout.")
}

func notAllowed(op, text, allowed string) error {
	return fault.Newf(fault.InvalidArgs, op, brief(text), "not allowed").Advise(allowed)
}

// brief is as much of a text as is enough to recognise it.
func brief(text string) string {
	return printable.First(text, 80)
}
