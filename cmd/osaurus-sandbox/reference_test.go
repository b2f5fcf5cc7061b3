package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the list of commands in docs/cli.md")

// TestCommandReference checks that docs/cli.md lists every command with its arguments and its help.
func TestCommandReference(t *testing.T) {
	const page = "../../docs/cli.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)(<!-- generated: commands -->\n).*?(<!-- end -->)`)
	if !part.Match(text) {
		t.Fatalf("%s has no place for the list of commands", page)
	}
	list := strings.ReplaceAll(commandReference(newRoot(console{})), "$", "$$")
	fresh := part.ReplaceAll(text, []byte("${1}"+list+"${2}"))
	if string(fresh) == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: run make generate", page)
	}
	if err := os.WriteFile(page, fresh, 0o644); err != nil {
		t.Fatal(err)
	}
}

func commandReference(root *cobra.Command) string {
	var b strings.Builder
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "**%s**\n\n| command | |\n| --- | --- |\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				commandRows(&b, cmd)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func commandRows(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden {
		return
	}
	if !cmd.HasSubCommands() || strings.Contains(cmd.Use, " ") { // else it shows its help
		use := strings.TrimPrefix(strings.TrimSuffix(cmd.UseLine(), " [flags]"), "osaurus-sandbox ")
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(use, "|", "\\|"), strings.ReplaceAll(cmd.Short, "|", "\\|"))
	}
	for _, sub := range cmd.Commands() {
		commandRows(b, sub)
	}
}
