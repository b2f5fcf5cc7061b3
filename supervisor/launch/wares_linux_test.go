package launch_test

import (
	"errors"
	"strings"
	"testing"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
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

// sellPython installs into an environment of an agent. Whatever may come of pip and
// npm is tried in package tools, on this host: on an emulated processor each
// takes a minute.
func (s *shop) sellPython(t *testing.T) {
	index := packagestest.NewPip(t,
		packagestest.Package{Name: "greetlib", Files: map[string]string{"greetlib.py": "text = 'hello from a module'\n"}},
		packagestest.Package{Name: "greeting", Depends: "greetlib>=1", Files: map[string]string{"greeting.py": "from greetlib import text\n"}},
	)
	a := s.agent(t, "ines", 2101)
	s.keep(t, a, ".config/pip/pip.conf", index.Config(t, packagestest.ToGuests))
	// That there is no environment yet is what a guest says of its Python.
	python := packages.Venv(a.Home) + "/bin/python3"
	_, err := guestRooms{client: s.home.guest.Client}.Exec(t.Context(), a, guest.Command{Args: []string{python}})
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.NotFound || f.Subject != python {
		t.Errorf("%#v", err)
	}
	s.sh(t, a, false, "python3 -m venv --system-site-packages --without-pip ~/.venv") // in a tenth of the time of a whole one
	s.installed(t, a, "sandbox_pip_install", "greeting >= 1")
	if got := s.sh(t, a, false, "~/.venv/bin/python3 -c 'import greeting; print(greeting.text, greeting.__file__.startswith(\"'$HOME'/.venv/\"))'"); got != "hello from a module True\n" {
		t.Error(got)
	}
}
