package agents

import (
	"osaurus-sandbox/bridge"
	"osaurus-sandbox/supervisor/machine"
)

// pass is the token that an agent's programs have in one boot of the guest.
type pass struct {
	in    machine.Guest
	token bridge.Token
}

// admit returns an agent that may have a room in a guest, and its token there: one
// for each boot, until the room is reset or the agent deleted.
func (a *Agents) admit(g machine.Guest, m *member) (Agent, bridge.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.gone { // who is deleted in this moment has its token revoked after this
		return Agent{}, "", notFound(string(m.Name))
	}
	if m.pass.in != g {
		m.pass = pass{g, a.Tokens.Mint(bridge.Holder{Agent: m.ID, Name: m.Name, User: m.User, UID: m.UID})}
		a.outlive(g)
	}
	return m.Agent, m.pass.token, nil
}

// revoke has an agent's token count no more. Agents.mu is held.
func (a *Agents) revoke(m *member) {
	m.pass = pass{}
	a.Tokens.Revoke(m.User)
}

// outlive has the tokens of a guest go with it. Agents.mu is held.
func (a *Agents) outlive(g machine.Guest) {
	if a.watched == g || a.life.Err() != nil {
		return
	}
	a.watched = g
	a.work.Go(func() {
		select {
		case <-g.Done():
		case <-a.life.Done(): // all of them go
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, m := range a.byName {
			if m.pass.in == g {
				a.revoke(m)
			}
		}
	})
}
