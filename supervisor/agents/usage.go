package agents

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/machine"
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

// Usage asks running guests for the usage of an agent, or of all agents if
// ref is empty, sorted by name. Running reports whether there is a guest.
func (a *Agents) Usage(ctx context.Context, ref string) (list []Usage, running bool, err error) {
	running, err = a.ask(ref, func(l *machine.Lease, user config.LinuxUser, of map[config.LinuxUser]Agent) error {
		rooms, err := l.RoomUsages(ctx, user)
		for _, room := range rooms {
			if agent, known := of[config.LinuxUser(room.User)]; known {
				list = append(list, Usage{agent, room})
			}
		}
		return err
	})
	slices.SortFunc(list, func(x, y Usage) int { return cmp.Compare(x.Agent.Name, y.Agent.Name) })
	return list, running, err
}

// Processes asks running guests for the processes of an agent, or of all if
// ref is empty, sorted by name and process id. More reports whether some are
// missing.
func (a *Agents) Processes(ctx context.Context, ref string) (list []Process, more bool, err error) {
	_, err = a.ask(ref, func(l *machine.Lease, user config.LinuxUser, of map[config.LinuxUser]Agent) error {
		processes, truncated, err := l.RoomProcesses(ctx, user, "")
		more = more || truncated
		for _, p := range processes {
			if agent, known := of[config.LinuxUser(p.User)]; known {
				p.Command = a.Redacted(agent).Clipped(p.Command)
				list = append(list, Process{agent, p})
			}
		}
		return err
	})
	slices.SortFunc(list, func(x, y Process) int {
		return cmp.Or(cmp.Compare(x.Agent.Name, y.Agent.Name), cmp.Compare(x.PID, y.PID))
	})
	return list, more, err
}

// Opened lists the processes of an agent that have files in a folder of its room open, or work in a
// folder there. Without a running guest there are none. Paths are relative to the folder.
func (a *Agents) Opened(ctx context.Context, agent Agent, folder string) (list []engine.RoomProcess, err error) {
	_, err = a.ask(string(agent.ID), func(l *machine.Lease, user config.LinuxUser, of map[config.LinuxUser]Agent) error {
		processes, _, err := l.RoomProcesses(ctx, user, folder)
		for _, p := range processes {
			for i, path := range p.Open {
				p.Open[i] = strings.TrimPrefix(strings.TrimPrefix(path, folder), "/")
			}
			if _, known := of[config.LinuxUser(p.User)]; known && len(p.Open) > 0 {
				p.Command = a.Redacted(agent).Clipped(p.Command)
				list = append(list, p)
			}
		}
		return err
	})
	return list, err
}

// ask asks the running guest of an agent about its user, or all running guests about all users if
// ref is empty. The answers count for the agents by their users. It reports whether a guest runs.
func (a *Agents) ask(ref string, question func(l *machine.Lease, user config.LinuxUser, of map[config.LinuxUser]Agent) error) (running bool, err error) {
	var user config.LinuxUser
	agents, machines := a.List(), a.Machines.All()
	if ref != "" {
		agent, err := a.Get(ref)
		if err != nil {
			return false, err
		}
		user, agents, machines = agent.User, []Agent{agent}, []*machine.Machine{a.Machines.For(agent.ID)}
	}
	of := map[config.LinuxUser]Agent{}
	for _, agent := range agents {
		of[agent.User] = agent
	}
	for _, vm := range machines {
		l, ok := vm.Peek()
		if !ok {
			continue
		}
		running = true
		err := question(l, user, of)
		l.Release()
		if noRoom := user != "" && fault.KindOf(err) == fault.NotFound; err != nil && !noRoom {
			return true, err
		}
	}
	return running, nil
}
