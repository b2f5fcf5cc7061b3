package agents

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/plain"
)

// writeMap writes which agent each Linux user is, for other programs.
func (a *Agents) writeMap() error {
	a.writing.Lock() // so that the last one to write has the newest
	defer a.writing.Unlock()
	users := map[config.LinuxUser]config.AgentID{}
	for _, agent := range a.List() {
		users[agent.User] = agent.ID
	}
	text, err := plain.Document(users) // sorts the keys
	if err != nil {
		return err
	}
	return config.WriteFile(a.Home.AgentMap(), text)
}
