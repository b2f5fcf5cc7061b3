package boot_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools/packages"
	"osaurus-sandbox/tools/packages/packagestest"
)

// unequipped calls for what the guest has no manager for, and demands to be told
// what to install first.
func (s *shop) unequipped(t *testing.T, list ...string) {
	a := s.agent(t, "ivo", 2102)
	for _, tool := range list {
		answer := s.call(t.Context(), t, a, tool, nil, "greeting").Text()
		for _, want := range []string{`"kind":"unavailable"`, `"retryable":false`, `"failure_class":"no_manager"`, "Call sandbox_install"} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s without its manager: no %s in %s", tool, want, answer)
			}
		}
	}
}

// whole reports whether agents' environments are made whole, and npm is tried. Whatever may come of pip
// and npm is tried in package tools, on this host: on an emulated processor each takes a minute.
func whole() bool { return os.Getenv("OSAURUS_GALLERY") == "all" }

// sellPython installs into an environment of an agent.
func (s *shop) sellPython(t *testing.T) {
	index := packagestest.NewPip(t,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"greetlib.py": "text = 'hello from a module'\n"}},
		packagestest.Package{Name: "greeting", Depends: "greetlib>=1", Files: map[string]string{"greeting.py": "from greetlib import text\n"}},
	)
	a := s.agent(t, "ines", 2101)
	s.keep(t, a, ".config/pip/pip.conf", index.Config(t, packagestest.ToGuests))
	// That there is no environment yet is what a guest says of its Python.
	python := packages.Venv(a.Home) + "/bin/python3"
	_, err := s.home.guest.Room(a.User).Exec(t.Context(), engine.Command{Args: []string{python}})
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.NotFound || f.Subject != python {
		t.Errorf("%#v", err)
	}
	if !whole() {
		s.sh(t, a, false, "python3 -m venv --system-site-packages --without-pip ~/.venv") // in a tenth of the time of a whole one
	}
	began := time.Now()
	s.installed(t, a, "sandbox_pip_install", "greeting >= 1")
	t.Logf("pip took %v", time.Since(began).Round(time.Second))
	if got := s.sh(t, a, false, "~/.venv/bin/python3 -c 'import greeting; print(greeting.text, greeting.__file__.startswith(\"'$HOME'/.venv/\"))'"); got != "hello from a module True\n" {
		t.Error(got)
	}
}

// sellNode installs into an agent's folder of Node packages.
func (s *shop) sellNode(t *testing.T) {
	if !whole() {
		t.Skip("npm takes a minute on an emulated processor: set OSAURUS_GALLERY=all")
	}
	registry := packagestest.NewNPM(t, packagestest.ToGuests,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"index.js": "module.exports = 'hello from a module'\n"}},
		packagestest.Package{Name: "greeting", Depends: "greetlib", Files: map[string]string{"index.js": "module.exports = require('greetlib')\n"}},
	)
	a := s.agent(t, "ines", 2101)
	s.keep(t, a, ".npmrc", registry.Config())
	began := time.Now()
	s.installed(t, a, "sandbox_npm_install", "greeting@^1")
	t.Logf("npm took %v", time.Since(began).Round(time.Second))
	if got := s.sh(t, a, false, "cd ~/.osaurus/node_workspace && node -p 'require(\"greeting\")'"); got != "hello from a module\n" {
		t.Error(got)
	}
}
