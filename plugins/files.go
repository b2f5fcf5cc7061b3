package plugins

import (
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
		at := below(root, string(p))
		if why := p.refused(); why != "" {
			v.fault(at, "file-path", "Write a path in the plugin's folder: scripts/run.py.", "%s", why)
		}
		if size := len(files[p]); size > MaxFile {
			v.fault(at, "size", "Have setup download what is big.", "%d bytes are more than %d", size, MaxFile)
		}
		small := strings.ToLower(string(p))
		if other, taken := spelled[small]; taken {
			v.fault(at, "file-path", "Rename one of the two.", "it and %s are one file where capitals do not count", other)
		}
		spelled[small] = p
		total += len(files[p])
	}
	for _, small := range sortedKeys(spelled) {
		p := spelled[small]
		for end := strings.LastIndexByte(small, '/'); end > 0; end = strings.LastIndexByte(small[:end], '/') {
			if other, taken := spelled[small[:end]]; taken {
				v.fault(below(root, string(p)), "file-path", "Rename one of the two.", "%s is a file, and cannot be a folder too", other)
			}
		}
	}
	if total > MaxFilesTotal {
		v.fault(root, "size", "Have setup download what is big.", "%d bytes in all are more than %d", total, MaxFilesTotal)
	}
}

// maxSegment is the longest file name of common file systems.
const maxSegment = 255

// refused returns why a path is not allowed, or "".
func (p FilePath) refused() string {
	text := string(p)
	parts := strings.Split(text, "/")
	switch {
	case text == "":
		return "the path is empty"
	case strings.HasPrefix(text, "/"):
		return "the path is absolute"
	case strings.ContainsFunc(text, unicode.IsControl), slices.ContainsFunc(parts, hidden):
		return "the path has a NUL or another control or hidden character"
	case len(text) > MaxPath:
		return "the path is too long"
	case len(parts) > MaxPathDepth:
		return "the path is too deep"
	}
	for _, part := range parts {
		switch {
		case part == "" || part == ".":
			return "the path has an empty part"
		case part == "..":
			return "the path leads out of the plugin's folder"
		case len(part) > maxSegment:
			return "a part of the path is too long"
		}
	}
	return ""
}
