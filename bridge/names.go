package bridge

import (
	"regexp"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

type (
	// ConfigKey is the key of a plugin's value: "last_sync".
	ConfigKey string
	// Topic is the type of an event: "rss.new_item".
	Topic string
	// Level is the level of a log line.
	Level string
)

// The levels of log lines.
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
	levelText     = regexp.MustCompile(`^(debug|info|warn|error|stdout)$`)
)

// ParseConfigKey checks the key of a plugin's value.
func ParseConfigKey(text string) (ConfigKey, error) {
	return parse[ConfigKey](text, configKeyText, "read config key", "Use 1 to 128 letters, digits, dots, dashes and underscores.")
}

// ParseTopic checks the type of an event.
func ParseTopic(text string) (Topic, error) {
	return parse[Topic](text, topicText, "read event type", "Use 1 to 128 letters, digits, dots, colons, dashes and underscores.")
}

// ParseLevel checks the level of a log line.
func ParseLevel(text string) (Level, error) {
	return parse[Level](text, levelText, "read level", "Use debug, info, warn, error or stdout.")
}

func parse[T ~string](text string, pattern *regexp.Regexp, op, advice string) (T, error) {
	if !pattern.MatchString(text) {
		return "", fault.Newf(fault.InvalidArgs, op, brief(text), "not allowed").Advise(advice)
	}
	return T(text), nil
}

// brief shortens a text for an error.
func brief(text string) string { return printable.First(text, 80) }
