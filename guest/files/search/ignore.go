//go:build linux

package search

import (
	"regexp"
	"strings"
)

// maxIgnore bounds a file of rules: nobody writes longer ones.
const maxIgnore = 1 << 20

// rule is a line of a file that says what is to be ignored.
type rule struct {
	match       *regexp.Regexp
	literal     string // instead of match: a name, or below a folder a path
	anchored    bool   // it is of a path below the file's folder, not of any name
	foldersOnly bool
	keep        bool // it takes an earlier rule back
}

// rules are those of the files of one folder, and of the folders above it.
type rules struct {
	above *rules
	dir   string // the folder, relative to where the search begins; "" is that
	git   []rule // of .gitignore, and only where there is a repository
	own   []rule // of .ignore and .rgignore, which count for more
	repo  bool   // the folder is a repository's root, or below one
	top   bool   // it is that root
}

// parseRules reads a file of rules as git does. A line that cannot be read is
// left out, as there.
func parseRules(text string) []rule {
	var list []rule
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		var r rule
		if strings.HasPrefix(line, "!") {
			r.keep, line = true, line[1:]
		}
		if strings.HasPrefix(line, `\!`) || strings.HasPrefix(line, `\#`) {
			line = line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.foldersOnly, line = true, strings.TrimSuffix(line, "/")
		}
		if line == "" {
			continue
		}
		r.anchored = strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if !strings.ContainsAny(line, `*?[{\`) {
			r.literal = line
		} else {
			var err error
			if r.match, err = compileGlob(line); err != nil {
				continue
			}
		}
		list = append(list, r)
	}
	return list
}

// about reports whether a rule is about a name, with its path below the folder of the rule.
func (r rule) about(rel, name string, folder bool) bool {
	if r.foldersOnly && !folder {
		return false
	}
	text := name
	if r.anchored {
		text = rel
	}
	if r.match == nil {
		return text == r.literal
	}
	return r.match.MatchString(text)
}

// verdict is what the last rule about a name says.
func verdict(list []rule, rel, name string, folder bool) (ignore, about bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].about(rel, name, folder) {
			return !list[i].keep, true
		}
	}
	return false, false
}

// leavesOut reports whether what is called name, by its full path, is to be left
// out. Rules of deeper folders count for more, and those of .ignore for more
// than any of git. What no rule is about is left out if it is hidden.
func (r *rules) leavesOut(full, name string, folder bool) bool {
	below := func(at *rules) string {
		if at.dir == "" {
			return full
		}
		return full[len(at.dir)+1:]
	}
	for at := r; at != nil; at = at.above {
		if is, about := verdict(at.own, below(at), name, folder); about {
			return is
		}
	}
	for at := r; at != nil; at = at.above {
		if at.repo {
			if is, about := verdict(at.git, below(at), name, folder); about {
				return is
			}
		}
		if at.top {
			break // what is above a repository is not its business
		}
	}
	return name[0] == '.'
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
