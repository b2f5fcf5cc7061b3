package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
)

// Many plugins with long texts, and many files that hold none, are told in answers that
// clients read: all of them, and once.
func TestPluginsInAnswers(t *testing.T) {
	for _, many := range []int{0, 1, 600} {
		var entries []library.Entry
		var broken []library.Broken
		for n := range many {
			entries = append(entries, library.Entry{ID: config.PluginID(fmt.Sprintf("p%03d", n)), Recipe: plugins.Recipe{Description: strings.Repeat("long ", 400)}})
			broken = append(broken, library.Broken{Path: fmt.Sprintf("/home/%03d.json", n), Err: errors.New(strings.Repeat("no recipe ", 800))})
		}
		var told []string
		answers := 0
		for after := ""; ; {
			answer := pluginsAfter(after, entries, broken)
			if answers++; proto.Size(answer) > maxMessage {
				t.Errorf("an answer has %d bytes", proto.Size(answer))
			}
			for _, b := range answer.Broken {
				told = append(told, b.Path)
			}
			for _, p := range answer.Plugins {
				told = append(told, p.Id)
			}
			if answer.Next <= after {
				break
			}
			after = answer.Next
		}
		if len(told) != 2*many || many < 2 && answers > 1 || many > 2 && answers < 4 {
			t.Fatalf("%d of %d were told, in %d answers", len(told), 2*many, answers)
		}
		for n := range many {
			if told[n] != broken[n].Path || told[many+n] != string(entries[n].ID) {
				t.Fatalf("%d: %s and %s", n, told[n], told[many+n])
			}
		}
	}
}
