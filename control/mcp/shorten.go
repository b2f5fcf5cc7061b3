package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"osaurus-sandbox/internal/printable"
)

// maxShown is how long a text in a result may be. Tools answer less unless they are asked
// to. Clients drop results of twice that length, and models lose their context.
const maxShown = 64 << 10

// shorten cuts texts of an envelope that are too long, in their middle.
func shorten(envelope string) string {
	if len(envelope) <= maxShown {
		return envelope
	}
	var members map[string]any
	dec := json.NewDecoder(strings.NewReader(envelope))
	dec.UseNumber()
	if err := dec.Decode(&members); err != nil {
		return envelope
	}
	cut := false
	ok := members["ok"]
	delete(members, "ok")
	text, err := printable.JSON(shortened(members, &cut))
	if err != nil || !cut {
		return envelope
	}
	return fmt.Sprintf(`{"ok":%v,%s`, ok, text[1:]) // as tools.Envelope
}

// shortened returns a value with texts of about maxShown at most, and sets cut if one was
// longer.
func shortened(v any, cut *bool) any {
	switch v := v.(type) {
	case string:
		if len(v) <= maxShown {
			return v
		}
		*cut = true
		// Characters that are cut in half go.
		head, tail := strings.ToValidUTF8(v[:maxShown*2/5], ""), strings.ToValidUTF8(v[len(v)-maxShown*3/5:], "")
		return fmt.Sprintf("%s\n[… %d bytes left out: ask for less at once …]\n%s", head, len(v)-len(head)-len(tail), tail)
	case []any:
		for i := range v {
			v[i] = shortened(v[i], cut)
		}
	case map[string]any:
		for key := range v {
			v[key] = shortened(v[key], cut)
		}
	}
	return v
}
