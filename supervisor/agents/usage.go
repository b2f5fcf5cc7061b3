package agents

import (
	"cmp"
	"context"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Usage is what an agent uses of the guest.
type Usage struct {
	Agent Agent
	engine.RoomUsage
}

// Process is a process that runs for an agent.
type Process struct {
	Agent Agent
	engine.RoomProcess
}

// Usage asks the guest what agents that have a room use, by name: one, or all
// for an empty name. It starts no guest, and running says whether there is one.
func (a *Agents) Usage(ctx context.Context, ref string) (list []Usage, running bool, err error) {
	user, err := a.userOf(ref)
	if err != nil {
		return nil, false, err
	}
	l, ok := a.Machines.Shared().Peek()
	if !ok {
		return nil, false, nil
	}
	defer l.Release()
	rooms, err := l.RoomUsages(ctx, user)
	if err != nil && !noRoom(user, err) {
		return nil, true, err
	}
	users := a.users()
	for _, room := range rooms {
		if agent, known := users[config.LinuxUser(room.User)]; known && (user == "" || user == agent.User) {
			list = append(list, Usage{agent, room})
		}
	}
	slices.SortFunc(list, func(x, y Usage) int { return cmp.Compare(x.Agent.Name, y.Agent.Name) })
	return list, true, nil
}

// Processes asks the guest what runs for agents, by name and process id: for
// one, or for all for an empty name. It starts no guest. More says that not all
// are listed.
func (a *Agents) Processes(ctx context.Context, ref string) (list []Process, more bool, err error) {
	user, err := a.userOf(ref)
	if err != nil {
		return nil, false, err
	}
	l, ok := a.Machines.Shared().Peek()
	if !ok {
		return nil, false, nil
	}
	defer l.Release()
	processes, more, err := l.RoomProcesses(ctx, user)
	if err != nil && !noRoom(user, err) {
		return nil, false, err
	}
	users := a.users()
	for _, p := range processes {
		if agent, known := users[config.LinuxUser(p.User)]; known && (user == "" || user == agent.User) {
			p.Command = a.Redacted(agent).Text(p.Command)
			list = append(list, Process{agent, p})
		}
	}
	slices.SortFunc(list, func(x, y Process) int {
		return cmp.Or(cmp.Compare(x.Agent.Name, y.Agent.Name), cmp.Compare(x.PID, y.PID))
	})
	return list, more, nil
}

// noRoom reports whether an error only says that an agent has no room: it uses
// nothing then.
func noRoom(user config.LinuxUser, err error) bool {
	return user != "" && fault.KindOf(err) == fault.NotFound
}

// userOf is the Linux user of an agent, or empty for an empty name.
func (a *Agents) userOf(ref string) (config.LinuxUser, error) {
	if ref == "" {
		return "", nil
	}
	agent, err := a.Get(ref)
	return agent.User, err
}

// users are the agents by their Linux users.
func (a *Agents) users() map[config.LinuxUser]Agent {
	users := map[config.LinuxUser]Agent{}
	for _, agent := range a.List() {
		users[agent.User] = agent
	}
	return users
}
