package agents

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/printable"
)

// keepMap writes which agent each Linux user is, for other programs. A failure does not fail a
// change of agents: the next change writes the map again.
func (a *Agents) keepMap() {
	a.writing.Lock() // so that the last one to write has the newest
	defer a.writing.Unlock()
	users := map[config.LinuxUser]config.AgentID{}
	for _, agent := range a.List() {
		users[agent.User] = agent.ID
	}
	text, err := printable.Document(users) // sorts the keys
	if err == nil {
		err = config.WriteFile(a.Home.AgentMap(), text)
	}
	if err != nil {
		a.Log.Warn("the map of users was not written", "error", err)
	}
}
