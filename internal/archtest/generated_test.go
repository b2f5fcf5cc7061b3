package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

var update = flag.Bool("update", false, "rewrite the generated parts of documents")

// TestGeneratedParts: the generated parts of documents are up to date. Each stands between
// "<!-- generated: NAME -->" and "<!-- end -->".
func TestGeneratedParts(t *testing.T) {
	parts := map[string]string{
		"settings":       settingsTable(config.Describe(), true),
		"agent settings": settingsTable(config.DescribeAgent(), false),
		"exit codes":     exitCodes(t),
		"limits":         limitsTable(t),
		"methods":        methods(t),
	}
	part := regexp.MustCompile(`(?s)<!-- generated: ([a-z ]+) -->\n.*?<!-- end -->`)
	for _, page := range []string{"docs/operators.md", "docs/api.md"} {
		text := read(t, page)
		fresh := part.ReplaceAllStringFunc(text, func(old string) string {
			name := part.FindStringSubmatch(old)[1]
			body, known := parts[name]
			if !known {
				t.Errorf("%s: nothing generates %q", page, name)
			}
			delete(parts, name)
			return "<!-- generated: " + name + " -->\n" + body + "<!-- end -->"
		})
		if fresh == text {
			continue
		}
		if !*update {
			t.Errorf("%s is stale: run make generate", page)
		} else if err := os.WriteFile(filepath.Join(root, page), []byte(fresh), 0o644); err != nil {
			t.Error(err)
		}
	}
	for name := range parts {
		t.Errorf("no page has the generated part %q", name)
	}
}

// brief shortens descriptions of allowed values.
var brief = strings.NewReplacer("a whole number from ", "", "a list, each item ", "a list of: ", "true or false", "true, false", "|", "\\|",
	ruleShape(), "[network rules](network.md#rules)")

// ruleShape returns the form of network rules, which has a page of its own.
func ruleShape() string {
	_, err := config.ParseNetworkRule("")
	return strings.TrimSuffix(strings.TrimPrefix(fault.AdviceOf(err), "A rule is "), ".")
}

func settingsTable(list []config.Description, withEffect bool) string {
	var b strings.Builder
	b.WriteString("| key | meaning | values | default |")
	if withEffect {
		b.WriteString(" takes effect |")
	}
	b.WriteString("\n| --- | --- | --- | --- |" + strings.Repeat(" --- |", strings.Count(b.String(), "|")-5) + "\n")
	for _, d := range list {
		usual := "`" + d.Default + "`"
		switch {
		case d.Key == "secrets":
			usual = "the system's keyring"
		case d.Default == "":
			usual = "none"
		case len(d.Default) > 40:
			usual = "see `config show`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |", d.Key, d.Meaning, brief.Replace(d.Allowed), usual)
		if withEffect {
			effect := "next start"
			if d.Effect == config.Live {
				effect = "at once"
			}
			b.WriteString(" " + effect + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// exitCodes lists the kinds of errors with the comments of their constants.
func exitCodes(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal/fault/fault.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	meaning := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.ValueSpec); ok && len(c.Values) == 1 {
			if value, ok := c.Values[0].(*ast.BasicLit); ok {
				meaning[strings.Trim(value.Value, `"`)] = strings.TrimSpace(c.Comment.Text())
			}
		}
		return true
	})
	list := make([]string, len(fault.Kinds()))
	for _, k := range fault.Kinds() {
		if meaning[string(k)] == "" {
			t.Errorf("the constant of %s has no comment", k)
		}
		list[k.ExitCode()-1] = fmt.Sprintf("| %d | `%s` | %s |\n", k.ExitCode(), k, meaning[string(k)])
	}
	return "| code | kind of error | meaning |\n| --- | --- | --- |\n| 0 | | done |\n" + strings.Join(list, "")
}

var (
	protoService = regexp.MustCompile(`(?ms)((?:^//[^\n]*\n)*)^service (\w+) \{\n(.*?)^\}`)
	protoMethod  = regexp.MustCompile(`(?m)((?:^  //[^\n]*\n)*)^  rpc (\w+)\((stream )?\w+\) returns \((stream )?\w+\)`)
)

// methods lists the services of the control API with the comments of the schema.
func methods(t *testing.T) string {
	paths, err := filepath.Glob(filepath.Join(root, "control/controlpb/*.proto"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range protoService.FindAllStringSubmatch(string(text), -1) {
			fmt.Fprintf(&b, "**%s** (`%s`)\n\n| method | |\n| --- | --- |\n", s[2], filepath.Base(path))
			for _, m := range protoMethod.FindAllStringSubmatch(s[3], -1) {
				name := "`" + m[2] + "`"
				if m[3]+m[4] != "" {
					name += " (stream)"
				}
				fmt.Fprintf(&b, "| %s | %s |\n", name, sentence(m[1]))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// sentence returns the first sentence of a comment, on one line.
func sentence(comment string) string {
	text := strings.Join(strings.Fields(strings.ReplaceAll(comment, "//", " ")), " ")
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}
