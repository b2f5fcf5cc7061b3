package review

import (
	"path"
	"strings"

	"osaurus-sandbox/internal/gitignore"
)

// Limits of all .gitignore files of one look, which may be the agent's. A file beyond them ignores nothing, so that
// what it names is shown. Each name is matched with each rule above it.
const (
	maxIgnoreText  = 1 << 20
	maxIgnoreLines = 5000 // large repositories have hundreds
)

// ignorer answers as `git check-ignore --no-index` does, but it knows no other files than
// .gitignore, and no classes like [[:alpha:]]: such a rule matches nothing.
type ignorer struct {
	read  func(path string) string    // "" if there is none
	rules map[string][]gitignore.Rule // by folder
	known map[string]bool             // folders, whether they are ignored
	text  int                         // bytes that were read
	lines int
}

func newIgnorer(read func(path string) string) *ignorer {
	return &ignorer{read: read, rules: map[string][]gitignore.Rule{}, known: map[string]bool{}}
}

// ignored reports whether a path or a folder above it is ignored. A .git is not, to be shown.
func (g *ignorer) ignored(name string, folder bool) bool {
	if name == "." {
		return false
	}
	if out, ok := g.known[name]; ok && folder {
		return out
	}
	out := g.ignored(parent(name), true) || !inGit(name) && g.matched(name, folder)
	if folder {
		g.known[name] = out
	}
	return out
}

// matched asks the last rule that matches, from the nearest .gitignore to the farthest.
func (g *ignorer) matched(name string, folder bool) bool {
	for dir := parent(name); ; dir = parent(dir) {
		rules, ok := g.rules[dir]
		if !ok {
			rules = g.load(dir)
			g.rules[dir] = rules
		}
		below := strings.TrimPrefix(name, dir+"/")
		if ignored, decided := gitignore.Decide(rules, below, folder); decided || dir == "." {
			return ignored
		}
	}
}

// load reads the .gitignore of a folder, within the limits.
func (g *ignorer) load(dir string) []gitignore.Rule {
	if g.text > maxIgnoreText || g.lines > maxIgnoreLines {
		return nil
	}
	text := g.read(path.Join(dir, ".gitignore"))
	g.text += len(text)
	if g.lines += strings.Count(text, "\n"); g.text > maxIgnoreText || g.lines > maxIgnoreLines {
		return nil
	}
	return gitignore.Parse(text)
}
