package nofollow

import (
	"path"
	"strings"
)

// StaysBelow reports whether the target of a link called name is top or below it. Targets may contain ".." only at the
// start, so that other links on the way cannot lead out, and must never go above top, whose name
// another folder may have.
func StaysBelow(top, name, target string) bool {
	highest, down := path.Dir(name), false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == ".." && down:
			return false
		case part == "..":
			highest = path.Dir(highest)
		case part != ".":
			down = true
		}
	}
	return !path.IsAbs(target) && (highest == top || strings.HasPrefix(highest, top+"/"))
}
