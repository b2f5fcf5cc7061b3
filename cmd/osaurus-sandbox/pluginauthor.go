package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/plugins"
)

// readRecipe reads a file that should be a recipe, or standard input if that is "-".
func readRecipe(c console, path string) ([]byte, error) {
	in := c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fault.New(fault.NotFound, "read recipe", path, err).Advise("Name a file that is there and that you can read.")
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, plugins.MaxRecipe+1)) // what is longer is refused as such
	if err != nil {
		return nil, fault.New(fault.Execution, "read recipe", path, err)
	}
	return text, nil
}

// writeNew writes a file that is not there yet, unless force.
func writeNew(path string, text []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !force {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fault.Newf(fault.Rejected, "write", path, "the file is there already").Advise("Choose another name, or say --force to replace it.")
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fault.New(fault.Unavailable, "write", path, err).Advise("See that the folder is writable and that its disk has room.")
	}
	return nil
}

func newPluginInit(c console) *cobra.Command {
	var output string
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Start a recipe: one that works, to make your own from",
		Example: `  osaurus-sandbox plugin init "Word Count"
  osaurus-sandbox plugin init "Word Count" --output - | less`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r := plugins.Skeleton(args[0])
			id, err := r.ID()
			if err != nil {
				return err
			}
			text, err := r.Encode()
			if err != nil {
				return err
			}
			if output == "-" {
				_, err = c.out.Write(text)
				return err
			}
			if output == "" {
				output = string(id) + ".json"
			}
			if err := writeNew(output, text, force); err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.out, struct {
					Plugin config.PluginID `json:"plugin"`
					File   string          `json:"file"`
				}{id, output})
			}
			_, err = writef(c.out, "wrote %s; change it, and then: osaurus-sandbox plugin lint %s\n", output, output)
			return err
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "the `FILE`; - is standard output (default: the plugin's id and .json)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newPluginLint(c console) *cobra.Command {
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check recipes: what is wrong, where, and what to do",
		Long: `Errors are what a recipe is refused for, and end the command with exit code 2. Warnings are what will not do what you meant, or
lets a tool's caller do more than you meant. - is standard input.`,
		Example: `  osaurus-sandbox plugin lint word-count.json
  osaurus-sandbox plugin lint --strict --json plugins/*.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			counted := map[plugins.Severity]int{}
			all := []fileFinding{}
			for _, path := range args {
				text, err := readRecipe(c, path)
				if err != nil {
					return err
				}
				for _, f := range plugins.Lint(text) {
					counted[f.Severity]++
					all = append(all, fileFinding{path, f})
				}
			}
			if err := printFindings(c.out, all, asJSON); err != nil {
				return err
			}
			if n, more := counted[plugins.Fault], counted[plugins.Warning]; n > 0 || strict && more > 0 {
				return fault.Newf(fault.InvalidArgs, "lint", "", "%d errors, %d warnings", n, more).Advise("The remedies stand below each.")
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&strict, "strict", false, "end with exit code 2 for warnings too")
	return cmd
}

// fileFinding is what is wrong with a file.
type fileFinding struct {
	File string `json:"file"`
	plugins.Finding
}

// printFindings prints what is wrong as compilers do, with the remedy below.
func printFindings(w io.Writer, findings []fileFinding, asJSON bool) error {
	if asJSON {
		return printJSON(w, findings)
	}
	p := paintFor(w)
	for _, f := range findings {
		severity := p.busy(string(f.Severity))
		if f.Severity == plugins.Fault {
			severity = p.bad(string(f.Severity))
		}
		if _, err := writef(w, "%s:%d:%d: %s: %s: %s [%s]\n    %s\n", f.File, f.Line, f.Column, severity, f.Path, f.Text, f.Rule, f.Fix); err != nil {
			return err
		}
	}
	return nil
}

func newPluginSchema(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of recipes, for editors",
		Example: `  osaurus-sandbox plugin schema > plugin.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := plugins.Schema()
			if err != nil {
				return err
			}
			_, err = c.out.Write(text)
			return err
		},
	}
	alwaysJSON(cmd)
	return cmd
}
