package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

// helpText has a section for each command, under its name and arguments: what it does in a line, the rest
// of its help, and examples.
//
//go:embed help.md
var helpText string

// helpSections returns the sections of a text by their headings.
func helpSections(text string) map[string]string {
	sections := map[string]string{}
	for section := range strings.SplitSeq(strings.TrimPrefix(text, "# "), "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		sections[heading] = strings.TrimSpace(body)
	}
	return sections
}

// applyHelp gives cmd and its subcommands their help. What a command has as its long help already follows it.
func applyHelp(cmd *cobra.Command, sections map[string]string) {
	for _, sub := range cmd.Commands() {
		applyHelp(sub, sections)
	}
	heading := cmd.Use
	if cmd.HasParent() {
		heading = strings.TrimPrefix(cmd.Parent().CommandPath()+" "+cmd.Use, clientName+" ")
	}
	text, examples, _ := strings.Cut(sections[heading], "\n\n```sh\n")
	short, long, _ := strings.Cut(text, "\n\n")
	cmd.Short, cmd.Long = short, strings.TrimSpace(long+cmd.Long)
	cmd.Example = "  " + strings.ReplaceAll(strings.TrimSuffix(examples, "\n```"), "\n", "\n  ")
}

// moreHelp adds to the help of a command what the program knows better than helpText.
func moreHelp(text string) option {
	return func(cmd *cobra.Command) { cmd.Long += "\n\n" + text }
}
