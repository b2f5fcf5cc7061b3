package archtest

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// limits is the table of limits in docs/operators.md. {PACKAGE.CONSTANT} stands for a constant's value.
const limits = `| what | how much | beyond it |
| --- | --- | --- |
| agents | {supervisor/agents.maxAgents} in a home; about 50 rooms at once | refused |
| commands at once in a guest | {guest/protocol.MaxCommands}, 100 for one agent | refused |
| shells of an agent | {guest/shell.maxSessions}, each idle for {guest/shell.idleAfter} | the longest idle is closed |
| jobs of an agent | {config.MaxJobs} running, {guest/job.maxEnded} ended; 8 MiB of output each | refused; the oldest go |
| plugins | {plugins/install.maxPlugins} of an agent, {plugins/library.maxPlugins} in the library | refused |
| a ` + "`forward`" + ` | {control.maxPorts} ports, {cmd/osaurus-sandbox.maxForwarded} connections each; 80 to an agent, {guest/protocol.MaxConnections} in all | wait; refused |
| prompts of an agent | {supervisor/prompts.maxWaiting} of each kind, each for {supervisor/prompts.UsualWait} by default | refused |
| a secret | {secrets.MaxValueSize} | refused |
| an API message | {control.maxMessage}; 11 MiB with recipes; {control/mcp.maxRequest} of MCP over HTTP | refused |
| MCP sessions over HTTP | {control/mcp.maxSessions} | refused |
| output of ` + "`exec --json`" + ` | {cmd/osaurus-sandbox.maxJSONOutput} of each stream | the middle is left out |
| free space on this computer (Linux) | 512 MiB and 1 % of files | no space left, for the guest |
`

func limitsTable(t *testing.T) string {
	return regexp.MustCompile(`\{[^}]+\}`).ReplaceAllStringFunc(limits, func(ref string) string {
		at := strings.LastIndex(ref, ".")
		return constantText(t, ref[1:at], ref[at+1:len(ref)-1])
	})
}

// constantText finds a constant in the source of a package and prints its value for people.
func constantText(t *testing.T, dir, name string) string {
	set := token.NewFileSet()
	paths, _ := filepath.Glob(filepath.Join(root, dir, "*.go"))
	for _, path := range paths {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, s := range decl.Specs {
				if spec := s.(*ast.ValueSpec); spec.Names[0].Name == name && len(spec.Values) == 1 {
					return valueText(t, types.ExprString(spec.Values[0]))
				}
			}
		}
	}
	t.Errorf("%s has no constant %s", dir, name)
	return name
}

var units = strings.NewReplacer("time.Hour", "3600000000000", "time.Minute", "60000000000", "time.Second", "1000000000")

func valueText(t *testing.T, expression string) string {
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, units.Replace(expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	n, _ := constant.Int64Val(v.Value)
	switch d := time.Duration(n); {
	case strings.Contains(expression, "time.") && d >= time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case strings.Contains(expression, "time."):
		return fmt.Sprintf("%d minutes", d/time.Minute)
	case strings.Contains(expression, "<< 20"):
		return fmt.Sprintf("%d MiB", n>>20)
	case strings.Contains(expression, "<< 10"):
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}
