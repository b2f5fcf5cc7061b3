package launch_test

import (
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/internal/lab"
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

// sellPython makes an agent's environment and installs into it. Whatever else may
// come of it is tried where it is quicker, in package tools.
func (s *shop) sellPython(t *testing.T) {
	index := packagestest.NewPip(t,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"greetlib.py": "text = 'hello from a module'\n"}},
		packagestest.Package{Name: "greeting", Depends: "greetlib>=1", Files: map[string]string{"greeting.py": "from greetlib import text\n"}},
	)
	a := s.agent(t, "ines", 2101)
	s.keep(t, a, ".config/pip/pip.conf", index.Config(t, packagestest.ToGuests))
	s.installed(t, a, "sandbox_pip_install", "greeting >= 1")
	if got := s.sh(t, a, false, "~/.venv/bin/python3 -c 'import greeting; print(greeting.text)'"); got != "hello from a module\n" {
		t.Error(got)
	}
}

// sellNode installs with a real npm, which a Debian guest does not have at first.
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
	const at = "/usr/local/lib/npm"
	s.sh(t, a, true, "mkdir -p "+at+" && tar -xzf "+a.Home+"/npm.tgz -C "+at+" && ln -s "+at+"/package/bin/npm-cli.js /usr/local/bin/npm && chmod 755 "+at+"/package/bin/npm-cli.js")
	registry := packagestest.NewNPM(t, packagestest.ToGuests,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"index.js": "module.exports = 'hello from a module'\n"}},
		packagestest.Package{Name: "@test/greeting", Depends: "greetlib", Files: map[string]string{"index.js": "module.exports = require('greetlib')\n"}},
	)
	s.keep(t, a, ".npmrc", registry.Config())
	s.installed(t, a, tool, "@test/greeting@^1")
	if got := s.sh(t, a, false, "cd /tmp && NODE_PATH=~/.osaurus/node_workspace/node_modules node -p 'require(\"@test/greeting\")'"); got != "hello from a module\n" {
		t.Error(got)
	}
}
