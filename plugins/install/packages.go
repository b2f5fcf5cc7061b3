package install

import (
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools/packages"
)

// alpineNames maps names of Debian's packages to Alpine's, so that recipes written for one
// distribution work on the other. Python's packages differ in their prefix.
var alpineNames = map[string]string{"build-essential": "build-base", "sqlite3": "sqlite", "openssh-client": "openssh-client-default", "fonts-dejavu": "font-dejavu"}

const alpinePython, debianPython = "py3-", "python3-"

// translate returns a package's name in the distribution of a package manager.
func translate(m packages.Manager, name string) string {
	from, to := debianPython, alpinePython
	if m == packages.APT {
		from, to = alpinePython, debianPython
		for debian, alpine := range alpineNames {
			if alpine == name {
				return debian
			}
		}
	} else if alpine, ok := alpineNames[name]; ok {
		return alpine
	}
	if rest, ok := strings.CutPrefix(name, from); ok {
		return to + rest
	}
	return name
}

// aName matches the part of a dependency before its version.
var aName = regexp.MustCompile(`^[A-Za-z0-9._+-]*[A-Za-z0-9._+]`)

// packagesFor returns dependencies under the names of the guest's distribution. It drops the
// version if the name is translated or the manager does not support the condition.
func packagesFor(m packages.Manager, dependencies []plugins.Dependency) []string {
	var list []string
	for _, d := range dependencies {
		name := aName.FindString(string(d))
		version := string(d)[len(name):]
		translated := translate(m, name)
		exact := strings.HasPrefix(version, "=") && !strings.HasPrefix(version, "==")
		if translated != name || m == packages.APT && !exact {
			version = ""
		}
		if spec := translated + version; !slices.Contains(list, spec) {
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
