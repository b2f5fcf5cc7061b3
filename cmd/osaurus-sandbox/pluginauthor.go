package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"osaurus-sandbox/internal/fault"
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
	var force bool
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Start a recipe: one that works, to make your own from",
		Example: `  osaurus-sandbox plugin init "Word Count"
  osaurus-sandbox plugin init "Word Count" --output - | less`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "-" && wantsJSON(cmd) {
				return fault.Newf(fault.InvalidArgs, "begin recipe", args[0], "--output - and --json exclude each other").Advise("Standard output is for the recipe or for where it is: say one of them.")
			}
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
			wrote := map[string]string{"plugin": string(id), "file": output}
			return reply(cmd, wrote, writeNew(output, text, force), func(w io.Writer, _ map[string]string) error {
				return writef(w, "wrote %s; change it, and then: osaurus-sandbox plugin lint %s\n", output, output)
			})
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "the `FILE`; - is standard output (default: the plugin's id and .json)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return withJSON(cmd)
}

func newPluginLint(c console) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check recipes: what is wrong, where, and what to do",
		Long: `A recipe with errors is refused, and the exit code is 2. Warnings are about what probably does not do what you mean, or lets those
who call a tool do more than you mean. - is standard input.`,
		Example: `  osaurus-sandbox plugin lint word-count.json
  osaurus-sandbox plugin lint --strict --json plugins/*.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			counted := map[plugins.Severity]int{}
			all := findings{Findings: []fileFinding{}}
			for _, path := range args {
				text, err := readRecipe(c, path)
				if err != nil {
					return err
				}
				for _, f := range plugins.Lint(text) {
					counted[f.Severity]++
					all.Findings = append(all.Findings, fileFinding{path, f})
				}
			}
			if err := reply(cmd, all, nil, printFindings); err != nil {
				return err
			}
			if n, more := counted[plugins.Fault], counted[plugins.Warning]; n > 0 || strict && more > 0 {
				return fault.Newf(fault.InvalidArgs, "lint", "", "%s, %s", plural(n, "error"), plural(more, "warning")).Advise("The remedies stand below each.")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "end with exit code 2 for warnings too")
	return withJSON(cmd)
}

// findings are what is wrong with files.
type findings struct {
	Findings []fileFinding `json:"findings"`
}

// fileFinding is what is wrong with a file.
type fileFinding struct {
	File string `json:"file"`
	plugins.Finding
}

// printFindings prints what is wrong as compilers do, with the remedy below.
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

func newPluginSchema(c console) *cobra.Command {
	return alwaysJSON(&cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of recipes, for editors",
		Example: `  osaurus-sandbox plugin schema > plugin.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			text, err := plugins.Schema()
			if err != nil {
				return err
			}
			_, err = c.out.Write(text)
			return err
		},
	})
}
