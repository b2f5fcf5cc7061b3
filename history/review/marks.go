package review

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/gitignore"
	"osaurus-sandbox/internal/nofollow"
)

// hostRuns lists what programs on the host run when a person works in the folder. The
// patterns are those of .gitignore, in lower case: macOS does not tell case apart.
var hostRuns = []struct{ by, patterns string }{
	{"direnv runs it in every shell that enters the folder", ".envrc .env"},
	{"tools and shells read it as their configuration", ".tool-versions mise.toml .mise.toml .autoenv .bashrc .zshrc .profile .npmrc .yarnrc* .pnp.* pip.conf .cargo/"},
	{"editors run tasks and tools that it names", ".vscode/ *.code-workspace .idea/ .vimrc .nvimrc .exrc .nvim.lua .dir-locals.el .sublime-project .zed/ .fleet/"},
	{"agents on the host take instructions and commands from it", ".claude/ .cursor/ .mcp.json agents.md claude.md"},
	{"package managers run its scripts", "package.json setup.py setup.cfg pyproject.toml build.rs cargo.toml *.gemspec gemfile composer.json podfile package.swift *.podspec"},
	{"build tools run what it says", "*makefile *.mk justfile .justfile taskfile.y*ml rakefile *.gradle *.gradle.kts gradlew* mvnw* pom.xml cmakelists.txt *.cmake meson.build build.zig *.bazel bazel workspace configure *.pro sconstruct magefile.go"},
	{"test and lint tools run it", "conftest.py tox.ini noxfile.py *.config.js *.config.ts *.config.mjs *.config.cjs .eslintrc* .prettierrc* jest.config.*"},
	{"git or its hooks run it", ".pre-commit-config.y*ml .husky/ lefthook.y*ml .gitmodules .gitattributes .githooks/ .gitconfig hooks/"},
	{"continuous integration runs it, with its secrets", ".github/ .gitlab-ci.yml .gitlab/ .circleci/ .travis.yml jenkinsfile azure-pipelines.yml .buildkite/ .drone.yml"},
	{"containers are built or started from it", ".devcontainer/ .devcontainer.json *dockerfile* containerfile compose*.y*ml docker-compose*.y*ml vagrantfile"},
	{"programs that a person starts there run what it says", "gruntfile.js gulpfile.js flake.nix shell.nix default.nix .pylintrc .gdbinit .lldbinit"},
	{"the desktop or the shell may start it", "*.desktop *.command *.app/ autorun.inf"},
}

// mark finds what runs a path.
type mark struct {
	by string
	*ignorer
}

func newMarks() []mark {
	var marks []mark
	for _, list := range hostRuns {
		rules := gitignore.Parse(strings.ReplaceAll(list.patterns, " ", "\n"))
		none := newIgnorer(func(string) string { return "" })
		none.rules["."] = rules
		marks = append(marks, mark{list.by, none})
	}
	return marks
}

// runs says what may run a changed path on the host, or "".
func (l *look) runs(name string, before, after history.Entry) string {
	for _, m := range l.marks {
		if m.ignored(strings.ToLower(name), after.Kind == history.Folder) {
			return m.by
		}
	}
	if strings.EqualFold(path.Base(name), "HEAD") && after.Kind != history.Folder {
		return "its folder may be a Git repository, in which git runs what the config says"
	}
	const exec fs.FileMode = 0o111
	if after.Kind == history.File && after.Mode&exec != 0 && (before.Kind != history.File || before.Mode&exec == 0) {
		return "it can be run as a program"
	}
	return ""
}

// inGit reports whether a path is or is in a .git, however macOS spells it: it ignores case
// and invisible characters.
func inGit(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		visible := strings.Map(func(c rune) rune {
			if unicode.Is(unicode.Cf, c) {
				return -1
			}
			return c
		}, part)
		return strings.EqualFold(visible, ".git")
	})
}

// leadsOut reports whether a symlink at a path may lead out of the folder, or into a .git.
func leadsOut(name, target string) bool {
	const top = "top"
	return !nofollow.StaysBelow(top, path.Join(top, name), target) || inGit(path.Join(parent(name), target))
}
