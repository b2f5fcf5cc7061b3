package plugins

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
)

func (v *validator) files(files map[FilePath]string) {
	const root = "$.files"
	if !v.count(root, len(files), MaxFiles) {
		return
	}
	total := 0
	spelled := map[string]FilePath{} // by lower-case path: on a Mac, the workspace ignores case
	for _, p := range sortedKeys(files) {
		at, small := below(root, string(p)), strings.ToLower(string(p))
		why := p.refused()
		v.refuse(why != "", at, "file-path", "Write a path in the plugin's folder: scripts/run.py.", "%s", why)
		v.size(at, len(files[p]), MaxFile, "Have setup download large files.")
		other, taken := spelled[small]
		v.refuse(taken, at, "file-path", "Rename one of the two.", "it differs from %s only in case", other)
		spelled[small] = p
		total += len(files[p])
	}
	for _, p := range sortedKeys(files) {
		for dir := path.Dir(strings.ToLower(string(p))); dir != "." && dir != "/"; dir = path.Dir(dir) {
			other, taken := spelled[dir]
			v.refuse(taken, below(root, string(p)), "file-path", "Rename one of the two.", "%s is a file, and cannot be a folder too", other)
		}
	}
	v.size(root, total, MaxFilesTotal, "Have setup download large files.")
}

// maxSegment is the longest file name of common file systems.
const maxSegment = 255

// refused returns why a path is not allowed, or "".
func (p FilePath) refused() string {
	text := string(p)
	parts := strings.Split(text, "/")
	switch {
	case strings.ContainsFunc(text, unicode.IsControl), slices.ContainsFunc(parts, hidden):
		return "the path has a NUL or another control or hidden character"
	case !fs.ValidPath(text) || text == ".":
		return "the path is empty, absolute, or has an empty part, . or .."
	case len(text) > MaxPath, slices.ContainsFunc(parts, func(part string) bool { return len(part) > maxSegment }):
		return "the path is too long"
	case len(parts) > MaxPathDepth:
		return "the path is too deep"
	}
	return ""
}
