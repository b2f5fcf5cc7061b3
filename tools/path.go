package tools

import (
	"path"
	"strings"
	"unicode"

	"osaurus-sandbox/guest"
)

// maxPath is Linux's PATH_MAX, less the NUL.
const maxPath = 4095

// Path is a file or folder of a guest that a tool may touch: Rel is below Root,
// lexically. Whether links lead out of it is found where it is opened.
type Path struct {
	Root string // absolute: the agent's home, or what all agents share
	Rel  string // "." for the root itself
}

// String is the whole path.
func (p Path) String() string { return path.Join(p.Root, p.Rel) }

// roots are where file tools of an agent work. The home is the first.
func (a Agent) roots() []string { return []string{a.Home, guest.SharedDir, "/output", "/tmp"} }

// path reads the argument "path". A relative one is in the home folder, and
// ~ is that folder.
func (a Agent) path(text string) (Path, error) {
	const field = "path"
	full, err := a.absolute(field, text)
	if err != nil {
		return Path{}, err
	}
	for _, root := range a.roots() {
		if full == root {
			return Path{root, "."}, nil
		}
		if rel, below := strings.CutPrefix(full, root+"/"); below {
			return Path{root, rel}, nil
		}
	}
	f := wrongArgument(field, "a path in "+strings.Join(a.roots(), ", "), "the path %s is outside of what the tool may touch", quoted(text))
	f.More = map[string]any{"reason": "outside_allowed_roots"}
	if hostLike(text) {
		f.Message += ": it looks like one of the person's computer, of which the sandbox has only what is in " + a.Home
	}
	return Path{}, f
}

// folder reads the folder in an argument of a command, which may be any.
func (a Agent) folder(field, text string) (string, error) {
	if text == "" {
		return a.Home, nil
	}
	return a.absolute(field, text)
}

// absolute is a path without . and .. in it. One that climbs out of where it
// begins is refused, and not made into another.
func (a Agent) absolute(field, text string) (string, error) {
	refuse := func(reason, what string) error {
		f := wrongArgument(field, "a path in your home folder, such as notes/today.md", "the path %s %s", quoted(text), what)
		f.More = map[string]any{"reason": reason}
		return f
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", refuse("empty", "is empty")
	case strings.ContainsRune(text, 0):
		return "", refuse("null_byte", "holds a NUL character")
	case len(text) > maxPath:
		return "", refuse("too_long", "is too long")
	case onDrive(text): // it would be a strange name in the home folder, and nobody's wish
		return "", refuse("outside_allowed_roots", "is one of Windows: the sandbox is a Linux machine with none of the person's files")
	}
	base, rel := a.Home, text
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		rel = strings.TrimPrefix(strings.TrimPrefix(text, "~"), "/")
	case strings.HasPrefix(text, "/"):
		base, rel = "/", text[1:]
	}
	depth := 0
	for part := range strings.SplitSeq(rel, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", refuse("traversal", "climbs with .. above where it begins")
			}
		default:
			depth++
		}
	}
	return path.Join(base, rel), nil
}

// hostLike reports whether a path is of the kind that the person's computer
// has, and the sandbox not.
func hostLike(text string) bool {
	for _, prefix := range []string{"/Users/", "/home/", "/Volumes/", "/mnt/"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return onDrive(text)
}

// onDrive reports whether a path begins as those of Windows do.
func onDrive(text string) bool {
	return len(text) > 2 && text[1] == ':' && (text[2] == '\\' || text[2] == '/') && unicode.IsLetter(rune(text[0]))
}
