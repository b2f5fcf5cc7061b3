package secrets

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/internal/fault"
)

// MaxValueSize is how many bytes a secret may have: it becomes an environment
// variable, of which Linux takes 128 KiB with its name, and certificates with
// their chains fit into half of that.
const MaxValueSize = 64 << 10

// Redacted is what is shown of any value.
const Redacted = "[secret]"

// Value is a secret. However it is printed, logged or marshalled, it is
// Redacted; only Reveal returns it. It is the result of a function, so printers
// that walk through fields (fmt does so below unexported ones) do not find it,
// and values cannot be compared by accident.
type Value struct{ reveal func() string }

// ParseValue reads a secret: 1 byte to MaxValueSize of UTF-8 with no NUL in it, as
// environment variables and JSON have it.
func ParseValue(text string) (Value, error) {
	var err error
	switch {
	case text == "":
		err = errors.New("it is empty")
	case len(text) > MaxValueSize:
		err = fmt.Errorf("it is longer than %d bytes", MaxValueSize)
	case !utf8.ValidString(text):
		err = errors.New("it is not UTF-8 text")
	case strings.ContainsRune(text, 0):
		err = errors.New("it has a NUL in it")
	default:
		return Value{func() string { return text }}, nil
	}
	return Value{}, fault.New(fault.InvalidArgs, "read secret", "", err).
		Advise(fmt.Sprintf("A secret is 1 to %d bytes of text. Encode what is not text, for example with base64.", MaxValueSize))
}

// Reveal returns the secret itself; nothing, of the zero Value.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// Check reports the zero Value, which is no secret.
func (v Value) Check() error {
	if v.reveal == nil {
		_, err := ParseValue("")
		return err
	}
	return nil
}

// Format is what fmt prints, whatever the verb.
func (Value) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, Redacted) } // fmt's own writers do not fail

// String is for those who print without fmt: panic does.
func (Value) String() string { return Redacted }

// MarshalText is for JSON, XML and whatever else asks for text.
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue is what slog logs.
func (Value) LogValue() slog.Value { return slog.StringValue(Redacted) }
