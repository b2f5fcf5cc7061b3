package agents

import (
	"osaurus-sandbox/bridge"
	"osaurus-sandbox/supervisor/machine"
)

// pass is the token of an agent in one boot of the guest.
type pass struct {
	in    machine.Guest
	token bridge.Token
}

// admit returns an agent that may have a room in a guest, and its token there.
// A token lasts for a boot, until the room is reset or the agent deleted.
func (a *Agents) admit(g machine.Guest, m *member) (Agent, bridge.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.gone { // who is deleted in this moment has its token revoked after this
		return Agent{}, "", notFound(string(m.Name))
	}
	if m.pass.in != g {
		m.pass = pass{g, a.Tokens.Mint(bridge.Holder{Agent: m.ID, Name: m.Name, User: m.User, UID: m.UID})}
	}
	return m.Agent, m.pass.token, nil
}

// revoke revokes an agent's token. Agents.mu is held.
func (a *Agents) revoke(m *member) {
	m.pass = pass{}
	a.Tokens.Revoke(m.User)
}

// revokeEnded revokes the tokens of a machine's guests that have ended.
func (a *Agents) revokeEnded(vm *machine.Machine) {
	var now machine.Guest
	if l, ok := vm.Peek(); ok {
		defer l.Release()
		now = l.Guest
	}
	for _, m := range a.members(vm, func(m *member) bool { return m.pass.in != nil && m.pass.in != now }) {
		a.mu.Lock()
		a.revoke(m)
		a.mu.Unlock()
	}
}
