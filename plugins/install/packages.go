package install

import (
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools/packages"
)

// Names of packages that differ between the distributions, so that recipes written for one work
// on the other.
var (
	fromAlpine = map[string]string{"build-base": "build-essential", "sqlite": "sqlite3", "openssh-client-default": "openssh-client", "font-dejavu": "fonts-dejavu"}
	fromDebian = map[string]string{"build-essential": "build-base", "sqlite3": "sqlite", "openssh-client": "openssh-client-default", "fonts-dejavu": "font-dejavu"}
	// The prefixes of Python packages.
	alpinePython, debianPython = "py3-", "python3-"
)

// aName matches the part of a dependency before its version.
var aName = regexp.MustCompile(`^[A-Za-z0-9._+-]*[A-Za-z0-9._+]`)

// packagesFor returns dependencies under the names of the guest's distribution. It drops the
// version if the name is translated or the manager does not support the condition.
func packagesFor(m packages.Manager, dependencies []plugins.Dependency) []string {
	var list []string
	for _, d := range dependencies {
		name := aName.FindString(string(d))
		version := string(d)[len(name):]
		known, from, to := fromDebian, debianPython, alpinePython
		if m == packages.APT {
			known, from, to = fromAlpine, alpinePython, debianPython
		}
		translated, ok := known[name]
		if rest, is := strings.CutPrefix(name, from); is && !ok {
			translated, ok = to+rest, true
		}
		switch {
		case ok:
			name, version = translated, ""
		case m == packages.APT && !(strings.HasPrefix(version, "=") && !strings.HasPrefix(version, "==")):
			version = ""
		}
		if spec := name + version; !slices.Contains(list, spec) {
			list = append(list, spec)
		}
	}
	return list
}

// names returns packages without their versions.
func names(specs []string) []string {
	list := make([]string, len(specs))
	for n, p := range specs {
		list[n] = aName.FindString(p)
	}
	return list
}
