//go:build linux

package search

import "osaurus-sandbox/internal/gitignore"

// maxIgnore bounds an ignore file.
const maxIgnore = 1 << 20

// rules are the ignore rules of a folder and of those above it.
type rules struct {
	above *rules
	dir   string           // the folder, relative to the search root; "" is the root
	git   []gitignore.Rule // of .gitignore; they apply only in a repository
	own   []gitignore.Rule // of .ignore and .rgignore; they take precedence
	repo  bool             // the folder is in a repository
	top   bool             // the folder is the repository's root
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
		if is, about := gitignore.Decide(at.own, below(at), folder); about {
			return is
		}
	}
	for at := r; at != nil; at = at.above {
		if at.repo {
			if is, about := gitignore.Decide(at.git, below(at), folder); about {
				return is
			}
		}
		if at.top {
			break // rules above a repository do not apply to it
		}
	}
	return name[0] == '.'
}
