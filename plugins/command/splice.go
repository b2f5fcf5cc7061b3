package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Splice is a place where a command takes a variable apart, or makes code of it: whoever sets it can have more
// happen than the author meant.
type Splice struct {
	Variable string
	// Code says that it becomes part of a program; else its words are taken apart, and its stars become files.
	Code bool
}

// Splices finds where a command does so with variables whose names begin so, each once. What is no command has
// none: whoever runs it is told.
func Splices(text, prefix string) []Splice {
	file, err := parse(text)
	if err != nil {
		return nil
	}
	s := &splicer{prefix: prefix}
	s.walk(file, place{})
	return s.found
}

// place is where in a command something stands.
type place struct {
	code   bool // in what becomes a program
	quoted bool // where nothing is taken apart
}

type splicer struct {
	prefix string
	found  []Splice
}

func (s *splicer) add(found Splice) {
	if !slices.Contains(s.found, found) {
		s.found = append(s.found, found)
	}
}

// walk looks at a node and all below it, which stand in a place unless they say otherwise.
func (s *splicer) walk(root syntax.Node, at place) {
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			return s.param(n, at)
		case *syntax.DblQuoted:
			for _, part := range n.Parts {
				s.walk(part, place{code: at.code, quoted: true})
			}
			return false
		case *syntax.CmdSubst, *syntax.ProcSubst: // a command of its own; what it prints is not looked at
			syntax.Walk(n, func(inner syntax.Node) bool {
				if stmt, ok := inner.(*syntax.Stmt); ok {
					s.walk(stmt, place{})
					return false
				}
				return true
			})
			return false
		case *syntax.Assign, *syntax.CaseClause, *syntax.TestClause: // nothing is taken apart there
			if n != root {
				s.walk(n, place{code: at.code, quoted: true})
				return false
			}
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause: // an index in a number is run
			if n != root {
				s.walk(n, place{code: true, quoted: true})
				return false
			}
		case *syntax.Stmt:
			if call, ok := n.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				s.call(call, n.Redirs)
				return false
			}
			at = place{} // commands inside of a clause are commands again
		}
		return true
	})
}

func (s *splicer) param(p *syntax.ParamExp, at place) bool {
	if p.Param != nil && strings.HasPrefix(p.Param.Value, s.prefix) && !p.Length {
		switch {
		case at.code:
			s.add(Splice{Variable: p.Param.Value, Code: true})
		case !at.quoted:
			s.add(Splice{Variable: p.Param.Value})
		}
	}
	return true
}

// call looks at a call's words, of which some are programs.
func (s *splicer) call(call *syntax.CallExpr, redirs []*syntax.Redirect) {
	for _, a := range call.Assigns {
		s.walk(a, place{quoted: true})
	}
	var argv []string
	for _, w := range call.Args {
		argv = append(argv, w.Lit())
	}
	code, stdin := programs(argv)
	for i, w := range call.Args {
		s.walk(w, place{code: code[i]})
	}
	for _, redir := range redirs {
		if redir.Hdoc != nil {
			s.walk(redir.Hdoc, place{code: stdin, quoted: true})
		}
		if redir.Word != nil {
			s.walk(redir.Word, place{code: stdin && redir.Op == syntax.WordHdoc, quoted: true})
		}
	}
}

// programs says which words of a call are programs, and whether its input is one.
func programs(argv []string) (code []bool, stdin bool) {
	code = make([]bool, len(argv))
	for i, arg := range argv {
		name := base(arg)
		form := formOf(name)
		if form != shell && form != coder {
			if i == 0 && form != wrapper && form != other {
				return code, false
			}
			continue
		}
		told := name == "su"
		for j := i + 1; j < len(argv); j++ {
			option := argv[j]
			short := strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--")
			switch {
			case strings.HasSuffix(name, "awk") && (option == "-v" || option == "-F" || option == "-f"):
				j++ // its value
				told = told || option == "-f"
			case name == "eval" || name == "trap" && j == i+1 || strings.HasSuffix(name, "awk") && !short && !told:
				code[j], told = true, true
			case short && strings.ContainsAny(option, codeLetters(name)) || option == "--eval" || option == "--command":
				if j+1 < len(argv) {
					j++
					code[j] = true
				}
				told = true
			case !strings.HasPrefix(option, "-"):
				told = true
			}
		}
		return code, !told
	}
	return code, false
}
