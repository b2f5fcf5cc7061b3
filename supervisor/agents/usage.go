package agents

import (
	"cmp"
	"context"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Usage is an agent's usage of the guest.
type Usage struct {
	Agent Agent
	engine.RoomUsage
}

// Process is a process of an agent.
type Process struct {
	Agent Agent
	engine.RoomProcess
}

// Usage asks the running guest for the usage of an agent, or of all agents if
// ref is empty, sorted by name. Running says whether there is a guest.
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

// Processes asks the running guest for the processes of an agent, or of all if
// ref is empty, sorted by name and process id. More says that some are
// missing.
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
			p.Command = a.Redacted(agent).Clipped(p.Command)
			list = append(list, Process{agent, p})
		}
	}
	slices.SortFunc(list, func(x, y Process) int {
		return cmp.Or(cmp.Compare(x.Agent.Name, y.Agent.Name), cmp.Compare(x.PID, y.PID))
	})
	return list, more, nil
}

// noRoom reports whether an error only says that an agent has no room.
func noRoom(user config.LinuxUser, err error) bool {
	return user != "" && fault.KindOf(err) == fault.NotFound
}

// userOf returns the Linux user of an agent, or "" for an empty name.
func (a *Agents) userOf(ref string) (config.LinuxUser, error) {
	if ref == "" {
		return "", nil
	}
	agent, err := a.Get(ref)
	return agent.User, err
}

// users returns the agents by their Linux users.
func (a *Agents) users() map[config.LinuxUser]Agent {
	users := map[config.LinuxUser]Agent{}
	for _, agent := range a.List() {
		users[agent.User] = agent
	}
	return users
}
