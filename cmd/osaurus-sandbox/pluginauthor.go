package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// readRecipe reads a recipe from a file, or from standard input if path is "-".
func readRecipe(in io.Reader, path string) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fault.New(fault.NotFound, "read recipe", path, err).Advise("Name a file that exists and that you can read.")
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, plugins.MaxRecipe+1)) // the limit is checked when it is parsed
	if err != nil {
		return nil, fault.New(fault.Execution, "read recipe", path, err)
	}
	return text, nil
}

// writeNew writes a new file.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fault.New(fault.Rejected, "write", path, err).Advise("Rename a file of that name, and check that the folder is writable and that its disk has space.")
	}
	return nil
}

func newPluginInit() *cobra.Command {
	return command("init NAME", func(ctx context.Context, c *call) error {
		r := plugins.Skeleton(c.args[0])
		id, err := r.ID()
		if err != nil {
			return err
		}
		text, err := r.Encode()
		if err != nil {
			return err
		}
		wrote := map[string]string{"plugin": string(id), "file": string(id) + ".json"}
		return reply(c, wrote, writeNew(wrote["file"], text), func(w io.Writer, wrote map[string]string) error {
			return writef(w, "wrote %s; edit it, then run: osaurus-sandbox plugin lint %s\n", wrote["file"], wrote["file"])
		})
	})
}

func newPluginLint() *cobra.Command {
	var strict bool
	return command("lint FILE...", func(ctx context.Context, c *call) error {
		counted := map[plugins.Severity]int{}
		all := findings{Findings: []fileFinding{}}
		for _, path := range c.args {
			text, err := readRecipe(c.in, path)
			if err != nil {
				return err
			}
			for _, f := range plugins.Lint(text) {
				counted[f.Severity]++
				all.Findings = append(all.Findings, fileFinding{path, f})
			}
		}
		if err := reply(c, all, nil, printFindings); err != nil {
			return err
		}
		if n, more := counted[plugins.Fault], counted[plugins.Warning]; n > 0 || strict && more > 0 {
			return fault.Newf(fault.InvalidArgs, "lint", "", "%s, %s", plural(n, "error"), plural(more, "warning")).Advise("The fix is below each.")
		}
		return nil
	},
		withFlag(&strict, "strict", "end with exit code 2 for warnings too"))
}

// findings are the problems of several files.
type findings struct {
	Findings []fileFinding `json:"findings"`
}

// fileFinding is a problem in a file.
type fileFinding struct {
	File string `json:"file"`
	plugins.Finding
}

// printFindings prints problems in the style of compilers, each with its fix below.
func printFindings(w io.Writer, all findings) error {
	p := paintFor(w)
	for _, f := range all.Findings {
		severity := p.busy(string(f.Severity))
		if f.Severity == plugins.Fault {
			severity = p.bad(string(f.Severity))
		}
		if err := writef(w, "%s:%d:%d: %s: %s: %s [%s]\n    %s\n", f.File, f.Line, f.Column, severity, f.Path, f.Text, f.Rule, f.Fix); err != nil {
			return err
		}
	}
	return nil
}

func newPluginSchema() *cobra.Command {
	return command("schema", func(ctx context.Context, c *call) error {
		_, err := c.out.Write(plugins.Schema)
		return err
	}, alwaysJSON)
}

func newPluginEdit() *cobra.Command {
	return daemonCommand("edit PLUGIN", func(ctx context.Context, c *call) error {
		p, err := editPlugin(ctx, c, c.args[0])
		if err == nil && p == nil {
			return writef(c.err, "nothing changed\n")
		}
		return replyRevised(c, "kept", p, err)
	})
}

// editPlugin lets a person edit a recipe. It returns nil if nothing changed.
func editPlugin(ctx context.Context, c *call, plugin string) (kept *controlpb.Plugin, err error) {
	shown, err := c.Plugins.Show(ctx, &controlpb.ShowPluginRequest{Plugin: plugin})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "osaurus-plugin-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "edit plugin", plugin, err).Advise("Make the folder for temporary files writable.")
	}
	path := filepath.Join(dir, plugin+".json")
	if err := writeNew(path, shown.Recipe); err != nil {
		return nil, err
	}
	if err := runTool(ctx, c.console, "", path); err != nil {
		return nil, err.Advise("Set EDITOR to an editor of yours. What you wrote is in " + path + ".")
	}
	text, err := readRecipe(c.in, path)
	if err == nil && !bytes.Equal(text, shown.Recipe) {
		kept, err = keepEdited(ctx, c, plugin, shown.Plugin.GetName(), text)
	}
	if err != nil { // keeps the edited file
		return nil, fault.Wrap("edit plugin", plugin, err).Advise("The plugin is unchanged; what you wrote is in " + path + ". Correct it, then run: osaurus-sandbox plugin import --update " + path)
	}
	return kept, os.RemoveAll(dir)
}

// keepEdited saves an edited recipe unless its name changed. name is empty if the old file was
// broken.
func keepEdited(ctx context.Context, c *call, plugin, name string, text []byte) (*controlpb.Plugin, error) {
	if r, err := plugins.Parse(text); err != nil {
		return nil, err
	} else if name != "" && r.Name != name {
		return nil, fault.Newf(fault.InvalidArgs, "", "", "the name was changed to %q, which is for: osaurus-sandbox plugin duplicate %s NAME", r.Name, plugin)
	}
	answer, err := c.Plugins.Import(ctx, &controlpb.ImportPluginRequest{From: &controlpb.ImportPluginRequest_Recipe{Recipe: text}, Update: true})
	return answer.GetPlugin(), err
}

// runTool runs a program with paths, by default the user's editor. Like git, it passes the program to a shell.
func runTool(ctx context.Context, c console, tool string, paths ...string) *fault.Error {
	tool = cmp.Or(tool, os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", tool + ` "$@"`, tool}, paths...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	if err := cmd.Run(); err != nil {
		return fault.New(fault.Execution, "run editor", tool, err).Advise("Set EDITOR to an editor of yours.")
	}
	return nil
}

func newPluginRegister() *cobra.Command {
	var file string
	return command("register AGENT [ID]", func(ctx context.Context, c *call) error {
		r := &controlpb.RegisterPluginRequest{Agent: c.args[0]}
		switch {
		case (file != "") == (len(c.args) > 1):
			return fault.Newf(fault.InvalidArgs, "register plugin", c.args[0], "it takes either an ID or --file").Advise("Name the folder in the agent's ~/plugins.")
		case file != "":
			text, err := readRecipe(c.in, file)
			if err != nil {
				return err
			}
			r.From = &controlpb.RegisterPluginRequest_Recipe{Recipe: text}
		default:
			r.From = &controlpb.RegisterPluginRequest_Plugin{Plugin: c.args[1]}
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		answer, err := withProgress(c, control.Messages(c.Installs.Register(ctx, r)))
		return replyInstalled(ctx, c, answer.GetPlugin(), err)
	}, withFlag(&file, "file", "a recipe; - is standard input"))
}
