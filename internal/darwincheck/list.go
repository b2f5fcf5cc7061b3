package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// target is a platform to build for.
type target struct {
	os, arch string
	cgo      bool
}

func (t target) env(more ...string) []string {
	cgo := "0"
	if t.cgo {
		cgo = "1"
	}
	return append(append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED="+cgo), more...)
}

// listed is a package in the output of `go list -json`.
type listed struct {
	Dir, ImportPath, Name string
	DepOnly               bool
	GoFiles, CgoFiles     []string
	IgnoredGoFiles        []string
	Imports               []string
	ImportMap             map[string]string
	Module                *struct{ Path, Dir, GoMod, GoVersion string }
	Error                 *struct{ Err string }
}

// files returns the files that are built for the target.
func (p *listed) files() []string {
	return append(append([]string{}, p.GoFiles...), p.CgoFiles...)
}

// list lists packages and their imports. It builds nothing.
func list(t target, tests bool, more []string, patterns ...string) ([]*listed, error) {
	args := []string{"list", "-deps", "-e", "-json=Dir,ImportPath,Name,DepOnly,GoFiles,CgoFiles,IgnoredGoFiles,Imports,ImportMap,Module,Error"}
	if tests {
		args = append(args, "-test")
	}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Env = t.env(more...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var all []*listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(p.ImportPath, ".test"): // the generated main of a test
		case len(p.files()) == 0 && len(p.IgnoredGoFiles) > 0: // not for this target
		case p.Error != nil && !p.DepOnly:
			return nil, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		default:
			all = append(all, p)
		}
	}
}
