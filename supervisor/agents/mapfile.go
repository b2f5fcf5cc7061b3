package agents

import (
	"bytes"
	"encoding/json"

	"osaurus-sandbox/config"
)

// writeMap writes which agent each Linux user is, for other programs.
func (a *Agents) writeMap() error {
	a.writing.Lock() // so that the last one to write has the newest
	defer a.writing.Unlock()
	users := map[config.LinuxUser]config.AgentID{}
	for _, agent := range a.List() {
		users[agent.User] = agent.ID
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	if err := enc.Encode(users); err != nil { // sorts the keys
		return err
	}
	return config.WriteFile(a.Home.AgentMap(), text.Bytes())
}
