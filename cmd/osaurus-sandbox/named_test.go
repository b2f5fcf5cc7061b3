package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/vm"
)

// said matches a command line of this program that a person is told to type: in backticks, after a
// colon, in an example, or in a code block.
var said = regexp.MustCompile("(?:`|: |\"|^ *(?:\\$ )?)osaurus-sandbox((?: [a-z][a-z-]+)+)([^`\"\n|#]*)")

// setting matches KEY= in such a line, except placeholders.
var setting = regexp.MustCompile(` ([a-z][A-Za-z.]*)=`)

// unknown returns what is wrong with such a line, or "".
func unknown(root *cobra.Command, words []string, rest string) string {
	cmd := root
	for _, word := range words {
		if !cmd.HasSubCommands() {
			break // an argument
		}
		next, _, err := cmd.Find([]string{word})
		if next == cmd && cmd.Runnable() && strings.Contains(cmd.Use, " ") {
			break // an argument of mount, which has the command list too
		}
		if err != nil || next == cmd {
			return "there is no command " + strings.Join(words, " ")
		}
		cmd = next
	}
	own, _, _ := strings.Cut(rest, " -- ") // the rest belongs to another program
	keys := map[string][]string{"config set": config.Keys(), "agent set": config.AgentKeys(), "agent create": config.AgentKeys()}[strings.Join(words[:min(len(words), 2)], " ")]
	for _, set := range setting.FindAllStringSubmatch(strings.Join(words, " ")+own, -1) {
		if keys != nil && !slices.Contains(keys, set[1]) {
			return "there is no setting " + set[1]
		}
	}
	for _, flag := range regexp.MustCompile(` --([a-z][a-z-]+)`).FindAllStringSubmatch(own, -1) {
		if cmd.Flag(flag[1]) == nil && flag[1] != "help" {
			return cmd.CommandPath() + " has no flag --" + flag[1]
		}
	}
	return ""
}

// Every command line in errors, help and documents exists, with its flags.
func TestCommandsThatAreNamedAreThere(t *testing.T) {
	root := newRoot(console{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for line, wrong := range map[string]bool{
		"up": false, "agent set alice network=none": false, "exec alice --root": false,
		"config set inference.model=x mcp.listen=": false, "agent create NAME KEY=VALUE": false,
		"start": true, "agent make": true, "up --soon": true, "config set colour=red": true, "agent set alice limits.memory=1": true,
	} {
		m := said.FindStringSubmatch("`osaurus-sandbox " + line + "`")
		if got := unknown(root, strings.Fields(m[1]), m[2]); (got != "") != wrong {
			t.Errorf("%s: %q", line, got)
		}
	}
	named := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch ending := filepath.Ext(path); {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return fs.SkipDir
		case d.IsDir() || ending != ".go" && ending != ".md" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "osaurus-sandbox ") {
				continue // regular expressions are slow
			}
			for _, m := range said.FindAllStringSubmatch(line, -1) {
				named++
				if wrong := unknown(root, strings.Fields(m[1]), m[2]); wrong != "" {
					t.Errorf("%s: %q: %s", path, strings.TrimSpace(m[0]), wrong)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 100 {
		t.Errorf("only %d commands were found", named)
	}
}

// TestWithoutEffect: only settings that the driver does not enforce are named.
func TestWithoutEffect(t *testing.T) {
	keys := []string{"limits.memoryMB", "limits.homeMB", "network"}
	if got := withoutEffect(vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipAsker}}, keys); !slices.Equal(got, []string{"limits.homeMB"}) {
		t.Errorf("with Apple's server: %q", got)
	}
	if got := withoutEffect(vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipSubtree}}, keys); len(got) > 0 {
		t.Errorf("with QEMU's: %q", got)
	}
}
