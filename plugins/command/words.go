package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// unknown stands in the text of a word for what is known only when the command runs. No word of a
// shell can hold it.
const unknown = '\x00'

const unknownText = string(unknown)

// scope is what is known of a command's variables.
type scope struct {
	assigned map[string][]*syntax.Word // all that each may be, wherever it is said
	opaque   map[string]bool           // those that may be anything else too
	steps    int                       // how many parts have been looked at
}

// harmless are variables of the agent's environment that name no host.
func harmless() map[string]string {
	return map[string]string{"HOME": "/home", "PWD": "/home", "TMPDIR": "/tmp", "USER": "agent", "OSAURUS_PLUGIN": "plugin"}
}

// scopeOf gathers what a command assigns, whether it comes to that or not.
func scopeOf(file *syntax.File) *scope {
	s := &scope{assigned: map[string][]*syntax.Word{}, opaque: map[string]bool{}}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			s.assign(n)
		case *syntax.ForClause:
			if iter, ok := n.Loop.(*syntax.WordIter); ok {
				s.assigned[iter.Name.Value] = append(s.assigned[iter.Name.Value], iter.Items...)
				s.opaque[iter.Name.Value] = s.opaque[iter.Name.Value] || len(iter.Items) == 0
			}
		case *syntax.CallExpr: // read, mapfile, printf -v, getopts: what they name, they change
			for _, w := range n.Args {
				if name := w.Lit(); name != "" && slices.Contains(setters(), n.Args[0].Lit()) {
					s.opaque[name] = true
				}
			}
		case *syntax.LetClause, *syntax.ArithmCmd, *syntax.ArithmExp:
			syntax.Walk(n, func(n syntax.Node) bool {
				if lit, ok := n.(*syntax.Lit); ok {
					s.opaque[lit.Value] = true
				}
				return true
			})
		case *syntax.ParamExp: // ${X:=value} assigns too
			if n.Exp != nil && n.Param != nil {
				s.opaque[n.Param.Value] = true
			}
		}
		return true
	})
	return s
}

func setters() []string {
	return []string{"read", "mapfile", "readarray", "printf", "getopts", "unset", "wait"}
}

func (s *scope) assign(a *syntax.Assign) {
	if a.Name == nil || a.Naked {
		return
	}
	name := a.Name.Value
	if a.Append || a.Array != nil || a.Index != nil {
		s.opaque[name] = true
	}
	if a.Value != nil {
		s.assigned[name] = append(s.assigned[name], a.Value)
	} else if a.Array == nil {
		s.assigned[name] = append(s.assigned[name], &syntax.Word{})
	}
}

// word lists all that a word may be, as far as it is known.
func (s *scope) word(w *syntax.Word) []string {
	if w == nil {
		return []string{""}
	}
	return s.parts(w.Parts, false, maxNested)
}

func (s *scope) parts(parts []syntax.WordPart, quoted bool, depth int) []string {
	texts := []string{""}
	for _, part := range parts {
		next := s.part(part, quoted, depth)
		if s.steps > maxSteps || len(texts)*len(next) > maxReadings || len(texts[0])+len(next[0]) > maxText {
			return []string{unknownText}
		}
		var longer []string
		for _, begin := range texts {
			for _, end := range next {
				longer = append(longer, begin+end)
			}
		}
		texts = longer
	}
	return texts
}

func (s *scope) part(part syntax.WordPart, quoted bool, depth int) []string {
	s.steps++
	switch p := part.(type) {
	case *syntax.Lit:
		return []string{unescape(p.Value, quoted)}
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\`) {
			break // $'\x65': whoever writes it so has a reason
		}
		return []string{p.Value}
	case *syntax.DblQuoted:
		return s.parts(p.Parts, true, depth)
	case *syntax.ParamExp:
		plain := !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
		if plain && p.Param != nil && depth > 0 {
			return s.variable(p.Param.Value, quoted, depth-1)
		}
	}
	return []string{unknownText}
}

// variable lists all that a variable may be. One whose value is taken apart where it stands may be anything.
func (s *scope) variable(name string, quoted bool, depth int) []string {
	if s.opaque[name] || s.steps > maxSteps || len(s.assigned[name]) > maxReadings {
		return []string{unknownText}
	}
	var values []string
	if usual, ok := harmless()[name]; ok {
		values = append(values, usual)
	}
	for _, w := range s.assigned[name] {
		values = append(values, s.parts(w.Parts, false, depth)...)
	}
	if len(values) == 0 || len(values) > maxReadings {
		return []string{unknownText}
	}
	for i, v := range values {
		if !quoted && strings.ContainsAny(v, " \t\n*?[") {
			values[i] = unknownText
		}
	}
	return values
}

// unescape takes a shell's backslashes out of a text.
func unescape(text string, quoted bool) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
