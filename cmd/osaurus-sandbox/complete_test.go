package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestPlaces(t *testing.T) {
	for _, tc := range []struct {
		use  string
		want []string // of the first four arguments
	}{
		{"status", []string{"", "", "", ""}},
		{"ps [AGENT]", []string{"AGENT", "", "", ""}},
		{"exec {AGENT | --root} [flags] -- COMMAND [ARG...]", []string{"AGENT", "COMMAND", "ARG", "ARG"}},
		{"verify AGENT [PLUGIN...]", []string{"AGENT", "PLUGIN", "PLUGIN", "PLUGIN"}},
		{"diff PLUGIN [FROM [TO]]", []string{"PLUGIN", "FROM", "TO", ""}},
		{"save ARTIFACT [FOLDER | -]", []string{"ARTIFACT", "FOLDER", "", ""}},
		{"call AGENT TOOL [JSON | KEY=VALUE...]", []string{"AGENT", "TOOL", "JSON", ""}},
	} {
		p := placesOf(tc.use)
		got := []string{p.at(0), p.at(1), p.at(2), p.at(3)}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.use, got, tc.want)
		}
	}
}

// TestHelp reads the help of every command as a newcomer does, who wants to know what
// it is for and to see one that works.
func TestHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q is no title", path, cmd.Short)
		}
		if (cmd.HasSubCommands() || len(placesOf(cmd.Use).words) > 0) && cmd.Example == "" {
			t.Errorf("%s: no example", path)
		}
		if cmd.Example != "" && !strings.Contains(cmd.Example, path) {
			t.Errorf("%s: the examples are of something else", path)
		}
	}
	walk(newRoot(console{}))
}
