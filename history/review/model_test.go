package review

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"osaurus-sandbox/internal/diff"
)

func newModel() *model {
	return &model{map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}}
}

// touched are the files that the agent has in its upper layer. All others show the real one.
func (m *model) touched(name string) bool { _, ok := m.agent[name]; return ok }

// retyped edits a line or two, makes the file, or removes it.
func retyped(r *rand.Rand, text string) string {
	if text == "" {
		return numbered(20 + r.IntN(20))
	}
	if r.IntN(25) == 0 {
		return ""
	}
	lines := strings.SplitAfter(text, "\n")
	for range 1 + r.IntN(3) {
		lines[r.IntN(len(lines)-1)] = fmt.Sprintf("new %d\n", r.IntN(1000))
	}
	return strings.Join(lines, "")
}

// agree notes what both sides have in common when they are looked at.
func (m *model) agree() {
	for name, text := range m.agent {
		if text == m.real[name] {
			m.base[name], m.known[name] = text, true
		}
	}
}

func (m *model) agentEdits(w *world, r *rand.Rand, name string) {
	old := m.real[name]
	if m.touched(name) {
		old = m.agent[name]
	}
	text := retyped(r, old)
	if !m.touched(name) && !m.known[name] && text+m.real[name] != "" {
		m.base[name], m.known[name] = m.real[name], true
	}
	m.agent[name] = text
	if text == "" {
		if old != "" {
			w.agentRemove(name)
		}
		if _, left := w.entries[name]; !left {
			delete(m.agent, name) // nothing was below it: the real one shows through
		}
	} else {
		w.agent(name, text, 0o644)
	}
	m.agree()
}

func (m *model) hostEdits(w *world, r *rand.Rand, name string) {
	text := retyped(r, m.real[name])
	if m.real[name] == "" && text == "" {
		return
	}
	m.real[name] = text
	if text == "" {
		w.hostRemove(name)
	} else {
		w.host(name, text, 0o644)
	}
}

// result is what accepting makes of a file.
func (m *model) result(name string) (text string, changed, merged, conflict bool) {
	real, agent, base := m.real[name], m.agent[name], m.base[name]
	switch {
	case !m.touched(name) || real == agent:
		return real, false, false, false
	case !m.known[name] && real == "":
		return agent, true, false, false
	case !m.known[name]:
		return "", false, false, true
	case agent == base:
		return real, false, false, false
	case real == base:
		return agent, true, false, false
	case real == "" || agent == "":
		return "", false, false, true
	}
	text, clean := "", false
	if base != "" {
		text, clean = diff.Merge(base, real, agent)
	}
	return text, clean && text != real, clean, !clean
}

func (m *model) accept(name string) (merged, conflict bool) {
	m.agree()
	text, changed, merged, conflict := m.result(name)
	if changed {
		m.real[name] = text
		m.base[name], m.known[name] = m.agent[name], true
	}
	return merged, conflict
}

func (m *model) reject(name string) {
	m.agree()
	if _, changed, _, conflict := m.result(name); changed || conflict {
		if m.real[name] == "" {
			delete(m.agent, name)
			return
		}
		m.agent[name] = m.real[name]
		m.base[name], m.known[name] = m.real[name], true
	}
}

// part accepts or rejects some hunks of a file.
func (m *model) part(w *world, r *rand.Rand, name string) bool {
	text, changed, merged, _ := m.result(name)
	hunks := diff.Hunks(m.real[name], text)
	if !changed || len(hunks) < 2 || m.real[name] == "" || text == "" {
		return false
	}
	m.agree()
	one := r.IntN(len(hunks))
	pick := Pick{Path: name, Hunks: []int{one + 1}}
	if r.IntN(2) == 0 {
		agent := diff.Select(m.real[name], text, func(i int) bool { return i != one })
		w.reject(pick)
		m.agent[name] = agent
		m.base[name], m.known[name] = m.real[name], true
		return true
	}
	m.real[name] = diff.Select(m.real[name], text, func(i int) bool { return i == one })
	report, err := w.Accept(w.t.Context(), Selection{Picks: []Pick{pick}})
	must(w.t, err)
	if len(report.Left) > 0 {
		w.t.Errorf("left: %+v", report.Left)
	}
	if !merged {
		m.base[name] = m.real[name]
	}
	return true
}

func (m *model) check(t *testing.T, w *world, when string) {
	t.Helper()
	real, room := w.has(), w.seen()
	for _, name := range []string{"a", "d/b", "d/e/c"} {
		agent, touched := m.agent[name]
		if !touched {
			agent = m.real[name]
		}
		for what, pair := range map[string][2]string{"real": {real[name], m.real[name]}, "room": {room[name], agent}} {
			want := ""
			if pair[1] != "" {
				want = show(File, 0o644, pair[1])
			}
			if pair[0] != want {
				t.Errorf("%s: %s %s is %q, want %q", when, what, name, pair[0], want)
			}
		}
	}
}
