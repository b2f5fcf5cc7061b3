package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// written are the binary files that belong to the module all the same.
var written = []string{"vm/image/disk/ext4.template"}

// packaged is how the names of packages, archives and images end.
var packaged = []string{".deb", ".rpm", ".apk", ".iso", ".img", ".qcow2", ".zip", ".gz", ".tgz", ".xz", ".zst", ".whl", ".exe", ".dmg"}

// headBytes is how much of a file tells whether it is text.
const headBytes = 1 << 10

// wrongKeepsakes: the repository keeps what people wrote, and nothing that a build
// or a package manager left. What tests need is in folders of the name testdata.
func wrongKeepsakes(root string) ([]string, error) {
	// Whoever owns the folder: only the list is read.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, nil // no git, or no repository but an archive of it: nothing is committed here
	}
	var wrong []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if slices.Contains(written, name) || slices.Contains(strings.Split(path.Dir(name), "/"), "testdata") {
			continue
		}
		if slices.Contains(packaged, path.Ext(name)) {
			wrong = append(wrong, name+": a package, an archive or an image has no place here")
			continue
		}
		binary, err := isBinary(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and that not committed yet
		}
		if err != nil {
			return nil, err
		}
		if binary {
			wrong = append(wrong, name+": a binary has no place here")
		}
	}
	return wrong, nil
}

// isBinary reports whether a file does not begin as a text.
func isBinary(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, headBytes))
	return bytes.IndexByte(head, 0) >= 0, err
}
