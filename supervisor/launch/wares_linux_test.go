package launch_test

import (
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/tools/packages"
	"osaurus-sandbox/tools/packages/packagestest"
)

// sellNothing calls for what the guest has no manager for.
func (s *shop) sellNothing(t *testing.T) {
	a := s.agent(t, "ivo", 2102)
	for _, tool := range []string{"sandbox_pip_install", "sandbox_npm_install"} {
		s.unequipped(t, tool, s.call(t.Context(), t, a, tool, nil, "greeting"))
	}
}

// unequipped demands that an answer says what to install first.
func (s *shop) unequipped(t *testing.T, tool string, e interface{ Text() string }) {
	t.Helper()
	for _, want := range []string{`"kind":"unavailable"`, `"retryable":false`, `"failure_class":"no_manager"`, "Call sandbox_install"} {
		if !strings.Contains(e.Text(), want) {
			t.Errorf("%s without its manager: no %s in %s", tool, want, e.Text())
		}
	}
}

// sellPython installs packages of Python.
func (s *shop) sellPython(t *testing.T) {
	const tool = "sandbox_pip_install"
	held := packagestest.Package{Name: "held"}
	index := packagestest.NewPip(t,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"greetlib.py": "text = 'hello from a module'\n"}},
		packagestest.Package{Name: "greeting", Depends: "greetlib>=1", Files: map[string]string{"greeting.py": "from greetlib import text\n"}},
		packagestest.Package{Name: "picky", Depends: "greetlib>=2"},
		held,
	)
	a := s.agent(t, "ines", 2101)
	s.keep(t, a, ".config/pip/pip.conf", index.Config(t, packagestest.ToGuests))

	// The first use makes the environment, also where an earlier one that was ended
	// has left half of one.
	s.sh(t, a, false, "python3 -m venv --without-pip ~/.venv")
	if !s.installed(t, a, tool, "greeting >= 1") {
		t.Error("an environment without pip was of no matter")
	}
	if got := s.sh(t, a, false, "~/.venv/bin/python3 -c 'import greeting; print(greeting.text)'"); got != "hello from a module\n" {
		t.Error(got)
	}
	s.refused(t, a, tool, packages.Missing, "nothing")
	s.refused(t, a, tool, packages.Conflict, "picky", "greetlib==1.0")
	s.cancelled(t, a, tool, index, held.WheelPath(), "held")
	s.installed(t, a, tool, "held")
}

// sellNode installs packages of Node, with a real npm, which the guest does not
// have at first.
func (s *shop) sellNode(t *testing.T) {
	const tool = "sandbox_npm_install"
	a := s.agent(t, "ines", 2101)
	s.unequipped(t, tool, s.call(t.Context(), t, a, tool, nil, "greeting"))
	archive := lab.NPM(t)
	if archive == "" {
		t.Skip("no npm for the guest")
	}
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	s.keep(t, a, "npm.tgz", string(text))
	s.sh(t, a, true, "mkdir -p /usr/local/lib/npm && tar -xzf "+a.Home+"/npm.tgz -C /usr/local/lib/npm && ln -s ../lib/npm/package/bin/npm-cli.js /usr/local/bin/npm && chmod 755 /usr/local/lib/npm/package/bin/npm-cli.js")

	held := packagestest.Package{Name: "held", Files: map[string]string{"index.js": ""}}
	registry := packagestest.NewNPM(t, packagestest.ToGuests,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"index.js": "module.exports = 'hello from a module'\n"}},
		packagestest.Package{Name: "@test/greeting", Depends: "greetlib", Files: map[string]string{"index.js": "module.exports = require('greetlib')\n"}},
		packagestest.Package{Name: "broken", PostInstall: "exit 3", Files: map[string]string{"index.js": ""}},
		held,
	)
	s.keep(t, a, ".npmrc", registry.Config())
	s.installed(t, a, tool, "@test/greeting@^1")
	// The folder and the variables are those of commands of tools.
	if got := s.sh(t, a, false, "cd /tmp && NODE_PATH=~/.osaurus/node_workspace/node_modules node -p 'require(\"@test/greeting\")'"); got != "hello from a module\n" {
		t.Error(got)
	}
	s.refused(t, a, tool, packages.Missing, "nothing")
	s.refused(t, a, tool, packages.Build, "broken")
	s.cancelled(t, a, tool, registry, held.TarballPath(), "held")
	s.installed(t, a, tool, "held")
	if got := s.sh(t, a, false, "ls ~/.osaurus/node_workspace/node_modules"); got != "@test\ngreetlib\nheld\n" {
		t.Error("what failed or was given up is there: " + got)
	}
}
