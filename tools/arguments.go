package tools

import (
	"bytes"
	"encoding/json"
)

// object decodes arguments. Some models send nothing, or encode the object as a JSON string.
func object(raw json.RawMessage) (map[string]any, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == `""` {
		return nil, nil
	}
	dec := decoder(raw)
	var v any
	err := dec.Decode(&v)
	if text, ok := v.(string); ok && err == nil {
		v, err = parse(text)
	}
	m, ok := v.(map[string]any)
	if !ok || err != nil || dec.More() {
		return nil, wrongArgument("", "a JSON object with the arguments by their names", "the arguments are not a JSON object")
	}
	return m, nil
}

func parse(text string) (v any, err error) {
	err = decoder([]byte(text)).Decode(&v)
	return v, err
}

func decoder(raw []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // keeps all digits
	return dec
}
