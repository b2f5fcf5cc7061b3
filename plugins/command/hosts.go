package command

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Found is what a command says of hosts.
type Found struct {
	// Hosts are names and addresses in small letters, each once.
	Hosts []string
	// Unclear is why there may be others: the first thing that cannot be known, or that can be read
	// in more than one way. It is empty if everything was understood.
	Unclear string

	commands int // how many were read
}

// Understood reports whether the command names no other hosts, as far as reading can tell. It never can tell all: what
// is in the files that a command runs, and what is downloaded, is not read.
func (f Found) Understood() bool { return f.Unclear == "" }

// Outside are the hosts that are not in a list. A name in it that begins with a dot stands for all that are below.
func (f Found) Outside(allowed []string) []string {
	return slices.DeleteFunc(slices.Clone(f.Hosts), func(host string) bool {
		return slices.ContainsFunc(allowed, func(name string) bool {
			return host == name || strings.HasPrefix(name, ".") && strings.HasSuffix(host, name)
		})
	})
}

// Allowed are the hosts that an agent's own plugin may name in setup and run: those that packages and sources
// come from, where nobody has told package managers another, and the room itself. What they are told comes on
// top: see HostsIn.
func Allowed() []string {
	return []string{
		"dl-cdn.alpinelinux.org", "github.com", "objects.githubusercontent.com",
		"pypi.org", "files.pythonhosted.org", "crates.io", "static.crates.io", ".npmjs.org",
		"localhost", "127.0.0.1", "::1",
	}
}

// HostsIn are the hosts of the addresses in a text that is no command: a package manager's configuration.
func HostsIn(text string) []string {
	f := &Found{}
	f.urls(text)
	return f.Hosts
}

// Hosts reads which hosts a command names.
func Hosts(text string) Found {
	f := &Found{}
	f.command(text, maxNested)
	return Found{Hosts: f.Hosts, Unclear: f.Unclear}
}

func (f *Found) command(text string, nested int) {
	if f.commands++; nested <= 0 || f.commands > maxCommands {
		f.unclear("commands are too deep in each other")
		return
	}
	file, err := parse(text)
	if err != nil {
		f.unclear("it is no shell command: " + err.Error())
		f.urls(text)
		return
	}
	r := &reader{Found: f, scope: scopeOf(file), nested: nested}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if call, ok := n.Cmd.(*syntax.CallExpr); ok {
				r.call(call, n.Redirs)
			}
		case *syntax.Assign:
			r.assign(n)
		case *syntax.Word:
			for _, text := range r.scope.word(n) {
				f.urls(text)
			}
		}
		return true
	})
}

// reader reads the calls of one command.
type reader struct {
	*Found
	scope  *scope
	nested int
}

var (
	proxyName = regexp.MustCompile(`(?i)_proxy$`)
	// Programs run what these say.
	commandName = regexp.MustCompile(`^(GIT_SSH|GIT_SSH_COMMAND|GIT_PROXY_COMMAND|GIT_CONFIG.*|GIT_EXTERNAL_DIFF|RSYNC_RSH|CVS_RSH|BASH_ENV|ENV|PROMPT_COMMAND|EDITOR|PAGER|LD_.*)$`)
)

func (r *reader) assign(a *syntax.Assign) {
	if a.Name == nil || a.Naked {
		return
	}
	r.variable(a.Name.Value, func() []string { return r.scope.word(a.Value) })
}

// variable reads what is put into the environment under a name.
func (r *reader) variable(name string, values func() []string) {
	if commandName.MatchString(name) {
		r.unclear(name + " has programs run others")
	}
	if !proxyName.MatchString(name) || strings.EqualFold(name, "no_proxy") {
		return
	}
	for _, text := range values() {
		if !strings.Contains(text, "://") {
			r.authority(text)
		}
	}
}

// call reads one call in all that its words may be.
func (r *reader) call(call *syntax.CallExpr, redirs []*syntax.Redirect) {
	if len(call.Args) == 0 {
		return
	}
	words, most := make([][]string, len(call.Args)), 1
	for i, w := range call.Args {
		words[i] = r.scope.word(w)
		most = max(most, len(words[i]))
	}
	stdin := r.stdin(redirs)
	for n := range most {
		argv := make([]string, len(words))
		for i, texts := range words {
			argv[i] = texts[n%len(texts)]
		}
		r.options(argv[1:])
		r.program(argv, stdin)
	}
}

// stdin is what a call is given to read: the texts that its input may be.
func (r *reader) stdin(redirs []*syntax.Redirect) []string {
	var texts []string
	for _, redir := range redirs {
		switch {
		case redir.Hdoc != nil:
			texts = r.scope.parts(redir.Hdoc.Parts, true, maxNested)
		case redir.Op == syntax.WordHdoc:
			texts = r.scope.word(redir.Word)
		case redir.Op == syntax.RdrIn:
			texts = []string{unknownText}
		}
	}
	return texts
}
