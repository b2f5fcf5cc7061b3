package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

func newPluginEdit(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "edit PLUGIN",
		Short: "Change a recipe of the library in your editor",
		Long: `The editor is $VISUAL, $EDITOR or vi. What you save is kept only if it has no errors; otherwise you are asked whether to edit it
again. If nobody is there to be asked, the plugin is not changed, and your file is kept. To change its
name, use "plugin rename".`,
		Example: `  EDITOR="code --wait" osaurus-sandbox plugin edit word-count`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			p, err := editPlugin(cmd.Context(), c, client, args[0])
			if err != nil {
				return err
			}
			if p == nil {
				return writef(c.err, "nothing changed\n")
			}
			return replyRevised(cmd, "kept", p, nil)
		}),
	})
}

// editPlugin has a person change a recipe until it has no faults. It is nil if nothing changed.
func editPlugin(ctx context.Context, c console, client *control.Client, plugin string) (*controlpb.Plugin, error) {
	shown, err := client.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: plugin})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "osaurus-plugin-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "edit plugin", plugin, err).Advise("Make the folder for temporary files writable.")
	}
	path := filepath.Join(dir, plugin+".json")
	if err := writeNew(path, shown.Recipe, false); err != nil {
		return nil, err
	}
	edited, err := edited(ctx, c, path)
	if err != nil {
		return nil, err // and what was written stays
	}
	var kept *controlpb.Plugin
	if !bytes.Equal(edited, shown.Recipe) {
		if kept, err = keepEdited(ctx, client, plugin, shown.Plugin.GetName(), edited); err != nil {
			return nil, fault.Wrap("keep "+path, "", err).Advise(cmp.Or(fault.AdviceOf(err), "Try again: osaurus-sandbox plugin import "+path+" --update"))
		}
	}
	return kept, os.RemoveAll(dir)
}

// keepEdited keeps a recipe as what a plugin is now, or leaves the plugin what it was. Its name
// is empty if its file was broken.
func keepEdited(ctx context.Context, client *control.Client, plugin, name string, text []byte) (*controlpb.Plugin, error) {
	r, err := plugins.Parse(text)
	if err != nil {
		return nil, err
	}
	if name != "" && r.Name != name {
		return nil, fault.Newf(fault.InvalidArgs, "edit plugin", plugin, "the name was changed to %q", r.Name).
			Advise(fmt.Sprintf("Run: osaurus-sandbox plugin rename %s NAME. Then edit it.", plugin))
	}
	answer, err := client.Plugins.Import(ctx, &controlpb.ImportPluginRequest{From: &controlpb.ImportPluginRequest_Recipe{Recipe: text}, Update: true})
	return answer.GetPlugin(), err
}

// edited runs the editor on a file, until what is in it is a recipe or the person gives up.
func edited(ctx context.Context, c console, path string) ([]byte, error) {
	answers := bufio.NewReader(c.in)
	for {
		if err := runEditor(ctx, c, path); err != nil {
			return nil, err
		}
		text, err := readRecipe(c, path)
		if err != nil {
			return nil, err
		}
		list := plugins.Lint(text)
		var all findings
		for _, f := range list {
			all.Findings = append(all.Findings, fileFinding{path, f})
		}
		if err := printFindings(c.err, all); err != nil {
			return nil, err
		}
		refused := plugins.Refusal(list)
		if refused == nil {
			return text, nil
		}
		if again, err := editAgain(ctx, c, answers); !again || err != nil {
			return nil, errors.Join(err, fault.New(fault.InvalidArgs, "edit", path, refused).Advise("The plugin is what it was, and what you wrote is in "+path+"."))
		}
	}
}

// editAgain asks whether to go on. Where nobody is there to ask, no.
func editAgain(ctx context.Context, c console, answers *bufio.Reader) (bool, error) {
	if !someoneThere(c) {
		return false, nil
	}
	fmt.Fprint(c.err, "Edit it again? [Y/n] ")
	line, err := typedLine(ctx, answers)
	if err != nil {
		return false, fault.New(fault.UserDenied, "edit", "", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "" || answer == "y" || answer == "yes", nil
}

// runEditor runs the person's editor as git does: what the variable says is a shell's command.
func runEditor(ctx context.Context, c console, path string) error {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, editor, path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	if err := cmd.Run(); err != nil {
		return fault.New(fault.Execution, "run editor", editor, err).Advise("Set EDITOR to an editor of yours. What you wrote is in " + path + ".")
	}
	return nil
}
