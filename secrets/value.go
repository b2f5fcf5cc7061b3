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

// MaxValueSize bounds a secret. It becomes an environment variable, which Linux
// limits to 128 KiB; certificate chains fit into half of that.
const MaxValueSize = 64 << 10

// Redacted is printed in place of any value.
const Redacted = "[secret]"

// Value is a secret. It prints, logs and marshals as Redacted; only Reveal returns it. A closure
// holds it, because fmt and others also print unexported fields.
type Value struct{ reveal func() string }

// ParseValue makes a Value of 1 to MaxValueSize bytes of UTF-8 without NUL.
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
		err = errors.New("it contains a NUL byte")
	default:
		return Value{func() string { return text }}, nil
	}
	return Value{}, fault.New(fault.InvalidArgs, "read secret", "", err).
		Advise(fmt.Sprintf("A secret is 1 to %d bytes of text. Encode binary data, for example with base64.", MaxValueSize))
}

// Reveal returns the secret itself, or "" for the zero Value.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// Check returns an error for the zero Value.
func (v Value) Check() error {
	if v.reveal == nil {
		_, err := ParseValue("")
		return err
	}
	return nil
}

// Format implements fmt.Formatter for every verb.
func (Value) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, Redacted) } // fmt's writers do not fail

// String implements fmt.Stringer for code that prints without fmt, such as panic.
func (Value) String() string { return Redacted }

// MarshalText implements encoding.TextMarshaler, which JSON and XML use.
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements slog.LogValuer.
func (Value) LogValue() slog.Value { return slog.StringValue(Redacted) }
