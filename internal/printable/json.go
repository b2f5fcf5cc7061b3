package printable

import (
	"bytes"
	"encoding/json"
)

// JSON is a value in JSON, in which <, > and & stay what they are.
func JSON(v any) ([]byte, error) {
	text, err := encode(v, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// Document is JSON as a file of its own: indented, with a newline at the end.
func Document(v any) ([]byte, error) { return encode(v, "  ") }

func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return out.Bytes(), err
}
