package printable

import (
	"bytes"
	"encoding/json"
)

// JSON returns a value as JSON, without escaping <, > and &.
func JSON(v any) ([]byte, error) {
	text, err := encode(v, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// Document returns indented JSON with a final newline.
func Document(v any) ([]byte, error) { return encode(v, "  ") }

func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return out.Bytes(), err
}
