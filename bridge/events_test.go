package bridge

import (
	"strings"
	"testing"
)

func TestParseTopics(t *testing.T) {
	for text, ok := range map[string]bool{"*": true, "a": true, "rss.*": true, "shared:*": true, "": false, "*a": false, "a*b": false, " ": false, "**": false, strings.Repeat("a", 129): false} {
		if _, err := ParseTopics(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
