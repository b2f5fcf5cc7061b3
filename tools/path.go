package tools

import (
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"osaurus-sandbox/guest"
)

// maxPath is Linux's PATH_MAX without the NUL.
const maxPath = 4095

// Path is a file or folder in the guest that a tool may use. Rel is lexically below Root; the
// guest checks links when it opens the path.
type Path struct {
	Root string // absolute: the agent's home or a shared folder
	Rel  string // "." for the root itself
}

// String returns the absolute path.
func (p Path) String() string { return path.Join(p.Root, p.Rel) }

// roots returns the folders that an agent's file tools may use, the home first.
func (a Agent) roots() []string { return []string{a.Home, guest.SharedDir, "/output", "/tmp"} }

// path parses the argument "path". Relative paths and ~ start at the home folder.
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
		f.Message += ": it looks like a path on the person's computer; the sandbox has only " + a.Home
	}
	return Path{}, f
}

// folder parses a working folder, which may be anywhere in the room. It defaults to the home
// folder.
func (a Agent) folder(field, text string) (string, error) {
	if text == "" {
		return a.Home, nil
	}
	return a.absolute(field, text)
}

// absolute returns a clean absolute path. It refuses paths that climb above their start with "..".
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
	case onDrive(text): // Linux would accept it as a strange file name
		return "", refuse("outside_allowed_roots", "is a Windows path: the sandbox runs Linux and has none of the person's files")
	}
	base, rel := a.Home, text
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		rel = text[1:]
	case strings.HasPrefix(text, "/"):
		base = "/"
	}
	if rel = strings.TrimLeft(rel, "/"); rel != "" && !filepath.IsLocal(rel) {
		return "", refuse("traversal", "climbs with .. above where it begins")
	}
	return path.Join(base, rel), nil
}

// hostLike reports whether a path looks like one on the person's computer.
func hostLike(text string) bool {
	for _, prefix := range []string{"/Users/", "/home/", "/Volumes/"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return onDrive(text)
}

// onDrive reports whether a path starts with a Windows drive letter.
func onDrive(text string) bool {
	return len(text) > 2 && text[1] == ':' && (text[2] == '\\' || text[2] == '/') && unicode.IsLetter(rune(text[0]))
}
