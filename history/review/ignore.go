package review

import (
	"path"
	"strings"
)

// Limits of all .gitignore files of one look, which may be the agent's. A file beyond them ignores nothing, so that
// what it names is shown. Each name is matched with each rule above it.
const (
	maxIgnoreText  = 1 << 20
	maxIgnoreLines = 5000 // large repositories have hundreds
)

// rule is one line of a .gitignore.
type rule struct {
	pattern    []string // split at slashes
	negated    bool
	folderOnly bool
	whole      bool // matches the path below the .gitignore's folder, not only the name
}

// ignorer answers as `git check-ignore --no-index` does, but it knows no other files than
// .gitignore, and no classes like [[:alpha:]]: such a rule matches nothing.
type ignorer struct {
	read  func(path string) string // "" if there is none
	rules map[string][]rule        // by folder
	known map[string]bool          // folders, whether they are ignored
	text  int                      // bytes that were read
	lines int
}

func newIgnorer(read func(path string) string) *ignorer {
	return &ignorer{read: read, rules: map[string][]rule{}, known: map[string]bool{}}
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
		for i := len(rules) - 1; i >= 0; i-- {
			if rules[i].matches(below, folder) {
				return !rules[i].negated
			}
		}
		if dir == "." {
			return false
		}
	}
}

// load reads the .gitignore of a folder, within the limits.
func (g *ignorer) load(dir string) []rule {
	if g.text > maxIgnoreText || g.lines > maxIgnoreLines {
		return nil
	}
	text := g.read(path.Join(dir, ".gitignore"))
	g.text += len(text)
	if g.lines += strings.Count(text, "\n"); g.text > maxIgnoreText || g.lines > maxIgnoreLines {
		return nil
	}
	return parseIgnore(text)
}

func (r rule) matches(below string, folder bool) bool {
	if !r.whole {
		below = path.Base(below)
	}
	return (folder || !r.folderOnly) && matchPath(r.pattern, strings.Split(below, "/"))
}

func parseIgnore(text string) []rule {
	var rules []rule
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = trimSpaces(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if line == "" || line[0] == '#' || len(line) > maxPath {
			continue
		}
		var r rule
		line, r.negated = strings.CutPrefix(line, "!")
		line, r.folderOnly = strings.CutSuffix(line, "/")
		r.whole = strings.Contains(line, "/")
		if line = strings.TrimPrefix(line, "/"); line != "" {
			r.pattern = strings.Split(strings.ReplaceAll(line, "[!", "[^"), "/")
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces cuts spaces off the end, but not one after a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
		} else if line[i] == ' ' {
			continue
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// matchPath matches a path with a pattern, both split at slashes. A pattern that is
// malformed matches nothing.
func matchPath(pattern, name []string) bool {
	at := make([]bool, len(name)+1) // how much of the name the pattern up to here can match
	at[0] = true
	for i, part := range pattern {
		next := make([]bool, len(name)+1)
		for j, ok := range at {
			switch {
			case !ok:
			case len(part) > 1 && strings.Trim(part, "*") == "":
				for k := j; k <= len(name); k++ {
					next[k] = next[k] || k > j || i+1 < len(pattern)
				}
			case j < len(name):
				matched, err := path.Match(part, name[j])
				next[j+1] = next[j+1] || matched && err == nil
			}
		}
		at = next
	}
	return at[len(name)]
}
