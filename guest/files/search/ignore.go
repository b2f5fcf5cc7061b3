//go:build linux

package search

import (
	"regexp"
	"strings"
)

// maxIgnore bounds an ignore file.
const maxIgnore = 1 << 20

// rule is a line of an ignore file.
type rule struct {
	match       *regexp.Regexp
	literal     string // used instead of match: a name, or a path if anchored
	anchored    bool   // it matches a path below the ignore file's folder, not any name
	foldersOnly bool
	keep        bool // it negates an earlier rule
}

// rules are the ignore rules of a folder and of those above it.
type rules struct {
	above *rules
	dir   string // the folder, relative to the search root; "" is the root
	git   []rule // of .gitignore; they apply only in a repository
	own   []rule // of .ignore and .rgignore; they take precedence
	repo  bool   // the folder is in a repository
	top   bool   // the folder is the repository's root
}

// parseRules parses an ignore file like git, which skips invalid lines.
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

// about reports whether a rule matches a name, whose path is relative to the rule's folder.
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

// verdict returns the last rule's decision about a name.
func verdict(list []rule, rel, name string, folder bool) (ignore, about bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].about(rel, name, folder) {
			return !list[i].keep, true
		}
	}
	return false, false
}

// leavesOut reports whether to skip a file or folder. Rules of deeper folders take precedence, and
// .ignore files over .gitignore. Hidden names are skipped unless a rule keeps them.
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
			break // rules above a repository do not apply to it
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
