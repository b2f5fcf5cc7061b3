package plugins

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// urlAuthority matches a web, git or ssh address and captures what stands between the scheme and the path.
// scpAddress matches git@host:path.
var (
	urlAuthority = regexp.MustCompile("(?i)\\b(?:https?|ftps?|wss?|git|ssh)://([^\\s/?#\"'`\\\\<>|;&()]+)")
	scpAddress   = regexp.MustCompile(`\bgit@([A-Za-z0-9.-]+):`)
)

// packageHosts are the hosts that package managers and git use by default. An agent's plugin may name
// them without declaring them. A leading dot stands for all subdomains.
var packageHosts = []string{
	"dl-cdn.alpinelinux.org", "github.com", "objects.githubusercontent.com",
	"pypi.org", "files.pythonhosted.org", "crates.io", "static.crates.io", ".npmjs.org",
	"localhost", "127.0.0.1", "::1",
}

// PackageHosts returns the hosts that every plugin may name.
func PackageHosts() []string { return slices.Clone(packageHosts) }

// Hosts returns the hosts of the addresses that stand literally in a text, in lower case and each once.
// A host that contains a shell variable is not reported: only the network policy can decide about it.
func Hosts(text string) []string {
	var hosts []string
	add := func(host string) {
		host = strings.ToLower(strings.TrimRight(host, ".,"))
		if host != "" && !strings.ContainsAny(host, "$*{}") && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	for _, m := range urlAuthority.FindAllStringSubmatch(text, -1) {
		authority := m[1][strings.LastIndexByte(m[1], '@')+1:]
		if v6, ok := strings.CutPrefix(authority, "["); ok {
			authority, _, _ = strings.Cut(v6, "]")
		} else {
			authority, _, _ = strings.Cut(authority, ":")
		}
		add(authority)
	}
	for _, m := range scpAddress.FindAllStringSubmatch(text, -1) {
		add(m[1])
	}
	return hosts
}

// HostsOutside returns the hosts that a text names and a list does not have. A listed name that begins
// with a dot covers all its subdomains.
func HostsOutside(text string, allowed []string) []string {
	return slices.DeleteFunc(Hosts(text), func(host string) bool {
		return slices.ContainsFunc(allowed, func(name string) bool {
			return host == name || strings.HasPrefix(name, ".") && strings.HasSuffix(host, name)
		})
	})
}

// parseCommand parses a shell command as bash, which runs it in the guest.
func parseCommand(text string) (*syntax.File, error) {
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("it has a NUL character")
	}
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

// paramUse is a parameter that a command expands where its value does more than its author meant.
type paramUse struct {
	variable string
	code     bool // it becomes part of a program; otherwise it is split into words
}

// paramUses lists the parameters that a command uses and the uses that are unsafe, each once.
func paramUses(file *syntax.File) (variables []string, unsafe []paramUse) {
	param := func(n syntax.Node) (string, bool) {
		p, ok := n.(*syntax.ParamExp)
		if !ok || p.Param == nil || !strings.HasPrefix(p.Param.Value, paramPrefix) {
			return "", false
		}
		return p.Param.Value, !p.Length
	}
	add := func(use paramUse) {
		if !slices.Contains(unsafe, use) {
			unsafe = append(unsafe, use)
		}
	}
	word := func(w *syntax.Word, code bool) {
		for _, part := range w.Parts {
			if quoted, ok := part.(*syntax.DblQuoted); ok && code {
				for _, inner := range quoted.Parts {
					if name, ok := param(inner); ok {
						add(paramUse{name, true})
					}
				}
			} else if name, ok := param(part); ok {
				add(paramUse{name, code})
			}
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if name, _ := param(n); name != "" && !slices.Contains(variables, name) {
				variables = append(variables, name)
			}
		case *syntax.WordIter:
			for _, w := range n.Items {
				word(w, false)
			}
		case *syntax.CallExpr:
			for i, w := range n.Args {
				word(w, isCode(n.Args[:i]))
			}
		}
		return true
	})
	return variables, unsafe
}

var (
	interpreter = regexp.MustCompile(`^(sh|ash|dash|bash|zsh|su|node|perl|ruby|php|lua|python[0-9.]*)$`)
	codeOption  = regexp.MustCompile(`^(-[A-Za-z]*[cer]|--eval|--command)$`)
)

// isCode reports whether the word that follows these is a program's text: sh -c, python3 -c, node -e, eval.
func isCode(before []*syntax.Word) bool {
	if len(before) == 0 {
		return false
	}
	if before[0].Lit() == "eval" {
		return true
	}
	last := len(before) - 1
	if !codeOption.MatchString(before[last].Lit()) {
		return false
	}
	for last > 0 && strings.HasPrefix(before[last].Lit(), "-") {
		last--
	}
	return interpreter.MatchString(path.Base(before[last].Lit()))
}
