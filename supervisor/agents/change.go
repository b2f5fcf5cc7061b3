package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/machine"
)

// New describes an agent to create.
type New struct {
	Name     string // as a person writes it: see config.NameAgent
	ID       string // or empty, for a new one
	Settings map[string]string
}

// Create creates an agent. An existing home folder of its name becomes its
// home. It fails with Rejected if the name is taken or reserved.
func (a *Agents) Create(ctx context.Context, n New, by machine.Cause) (Agent, error) {
	name, err := nameOf(n)
	if err != nil {
		return Agent{}, err
	}
	return a.create(ctx, Agent{Name: name, Settings: config.AgentDefaults()}, n, by)
}

// nameOf returns the name of a new agent.
func nameOf(n New) (config.AgentName, error) {
	name, err := config.NameAgent(n.Name)
	if err == nil && name == Diagnostic {
		err = fault.Newf(fault.Rejected, "create agent", string(name), "the name is reserved for diagnostics").Advise("Choose another name.")
	}
	return name, err
}

// create creates an agent with a name and settings; those of New override them. If it is Unfinished, no
// folder of its name may exist.
func (a *Agents) create(ctx context.Context, agent Agent, n New, by machine.Cause) (Agent, error) {
	const op = "create agent"
	var err error
	if agent.ID, err = idFor(agent.Name, n.ID); err != nil {
		return Agent{}, err
	}
	if agent.Settings, err = with(agent.Settings, n.Settings); err != nil {
		return Agent{}, err
	}
	agent.Created = time.Now().UTC()
	end, err := a.turn(ctx, everybody, op, string(agent.Name))
	if err != nil {
		return Agent{}, err
	}
	defer end()
	if err := a.checkFree(op, agent); err != nil {
		return Agent{}, err
	}
	agent.Folder = a.folderFor(agent)
	if agent.Unfinished {
		if err := a.folderFree(op, agent.Folder); err != nil {
			return Agent{}, err
		}
	}
	if agent, err = a.rows.add(ctx, agent); err != nil {
		return Agent{}, err
	}
	if err := a.makeHome(agent); err != nil {
		return Agent{}, errors.Join(err, a.rows.remove(context.WithoutCancel(ctx), agent))
	}
	a.mu.Lock()
	a.byName[agent.Name] = &member{Agent: agent}
	a.mu.Unlock()
	a.note(Created, by, agent, nil)
	a.keepMap()
	return agent, a.show(agent)
}

// Diagnostic returns the agent that diagnostics use, and creates it if
// necessary.
func (a *Agents) Diagnostic(ctx context.Context, by machine.Cause) (Agent, error) {
	agent, err := a.create(ctx, Agent{Name: Diagnostic, Settings: config.AgentDefaults()}, New{}, by)
	if there, missing := a.Get(string(Diagnostic)); missing == nil {
		return there, nil
	}
	return agent, err
}

// idFor returns the id of a new agent. A name that looks like an id must be
// the agent's own id, so that references are not ambiguous.
func idFor(name config.AgentName, text string) (config.AgentID, error) {
	id := config.NewAgentID()
	if text != "" {
		var err error
		if id, err = config.ParseAgentID(text); err != nil {
			return "", err
		}
	}
	own, err := config.ParseAgentID(string(name))
	if id == secrets.Host || own == secrets.Host {
		return "", fault.Newf(fault.InvalidArgs, "create agent", string(name), "the id %s is reserved", secrets.Host).Advise("Choose another id.")
	}
	switch {
	case err != nil:
		return id, nil
	case text != "" && own != id:
		return "", fault.Newf(fault.InvalidArgs, "create agent", string(name), "its name is an id other than %s", id).Advise("Choose another name.")
	}
	return own, nil
}

// checkFree refuses an agent whose name, id or user is taken. The caller has the
// turn.
func (a *Agents) checkFree(op string, agent Agent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	refuse := func(why, advice string) error {
		return fault.New(fault.Rejected, op, string(agent.Name), errors.New(why)).Advise(advice)
	}
	others := 0
	for _, m := range a.byName {
		switch {
		case m.UID == agent.UID: // itself, under another name
			continue
		case m.Name == agent.Name:
			return refuse("there is an agent of that name", "Choose another name, or use that one: `osaurus-sandbox agent show "+string(m.Name)+"`.")
		case m.ID == agent.ID:
			return refuse("its id is that of "+string(m.Name), "Choose another id, or none.")
		}
		others++
	}
	if others >= maxAgents {
		return refuse(fmt.Sprintf("there are %d agents", others), "Delete one that nobody needs.")
	}
	return nil
}

// with returns changed settings. It applies the changes in order, so that
// errors are reproducible.
func with(s config.AgentSettings, texts map[string]string) (config.AgentSettings, error) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		var err error
		if s, err = s.With(key, texts[key]); err != nil {
			return s, err
		}
	}
	return s, policy.CheckSets(s.NetworkRules)
}

// Rename changes an agent's name. User, uid, id and home folder stay.
func (a *Agents) Rename(ctx context.Context, ref, to string, by machine.Cause) (Agent, error) {
	const op = "rename agent"
	name, err := config.NameAgent(to)
	if err != nil {
		return Agent{}, err
	}
	end, err := a.turn(ctx, everybody, op, ref)
	if err != nil {
		return Agent{}, err
	}
	defer end()
	m, err := a.find(ref)
	if err != nil {
		return Agent{}, err
	}
	agent := a.agentOf(m)
	before := agent.Name
	agent.Name = name
	switch _, notID := config.ParseAgentID(string(name)); {
	case name == before:
		return agent, nil
	case name == Diagnostic || before == Diagnostic:
		return Agent{}, fault.Newf(fault.Rejected, op, string(before), "the name is reserved for diagnostics").Advise("Choose another name.")
	case notID == nil:
		return Agent{}, fault.Newf(fault.InvalidArgs, op, string(before), "a name cannot be an id").Advise("Choose another name.")
	}
	if err := a.checkFree(op, agent); err != nil {
		return Agent{}, err
	}
	if err := a.rows.update(ctx, op, agent); err != nil {
		return Agent{}, err
	}
	a.mu.Lock()
	delete(a.byName, before)
	m.Name = name
	a.byName[name] = m
	a.Tokens.Rename(m.User, name)
	a.mu.Unlock()
	a.note(Renamed, by, agent, map[string]string{"from": string(before)})
	return agent, nil
}

// Set changes settings, all or none, and returns the keys whose value changed.
// Live settings are in effect when Set returns.
func (a *Agents) Set(ctx context.Context, ref string, texts map[string]string, by machine.Cause) ([]string, error) {
	const op = "change agent"
	m, changed, err := a.keep(ctx, op, ref, texts)
	if err != nil {
		return nil, err
	}
	for _, key := range changed {
		a.note(Changed, by, a.agentOf(m), map[string]string{"detail": key})
	}
	if err := a.show(a.agentOf(m)); err != nil {
		return changed, err
	}
	return changed, a.apply(ctx, m)
}

// keep changes settings in the database.
func (a *Agents) keep(ctx context.Context, op, ref string, texts map[string]string) (*member, []string, error) {
	end, err := a.turn(ctx, everybody, op, ref)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	m, err := a.find(ref)
	if err != nil {
		return nil, nil, err
	}
	agent := a.agentOf(m)
	before := agent.Settings
	if agent.Settings, err = with(before, texts); err != nil {
		return nil, nil, err
	}
	changed := before.Differences(agent.Settings)
	if len(changed) == 0 {
		return m, nil, nil
	}
	if err := a.rows.update(ctx, op, agent); err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m.Settings = agent.Settings
	return m, changed, nil
}

func (a *Agents) agentOf(m *member) Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.Agent
}

func (a *Agents) madeOf(m *member) made {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.made
}

// clearLimit bounds the removal of a deleted agent's room, including the wait
// for earlier changes.
const clearLimit = 2 * time.Minute

// Delete ends everything that an agent runs and removes it, with workspace
// also its home folder. If no guest answers, its room is removed later, and
// pending is true. Once the agent is gone, the rest follows even if the caller
// leaves or this program is killed.
func (a *Agents) Delete(ctx context.Context, ref string, workspace bool, by machine.Cause) (pending bool, err error) {
	agent, err := a.forget(ctx, ref, workspace)
	if err != nil {
		return false, err
	}
	a.note(Deleted, by, agent, map[string]string{"workspace": fmt.Sprint(workspace)})
	a.keepMap()
	ctx = context.WithoutCancel(ctx)
	pending = true
	if l, gone := a.acquire(ctx, agent.ID, true); gone == nil {
		defer l.Release()
		if gateway := l.Gateway(); gateway != nil {
			gateway.Leave(agent.ID)
		}
		limited, cancel := context.WithTimeout(ctx, clearLimit)
		defer cancel()
		trouble := a.clear(limited, l, agent.User)
		if pending = trouble != nil; pending {
			a.Log.Warn("what a deleted agent has in the guest is removed later", "agent", agent.Name, "error", trouble)
		}
	}
	if workspace {
		err = a.removeHome(ctx, agent)
	}
	return pending, err
}

// forget removes an agent from the database. With workspace, its home folder
// is renamed first, so that a crash leaves nothing under its name.
func (a *Agents) forget(ctx context.Context, ref string, workspace bool) (Agent, error) {
	end, err := a.turn(ctx, everybody, "delete agent", ref)
	if err != nil {
		return Agent{}, err
	}
	defer end()
	m, err := a.find(ref)
	if err != nil {
		return Agent{}, err
	}
	agent := a.agentOf(m)
	if err := a.rows.remove(ctx, agent); err != nil {
		return Agent{}, err
	}
	if workspace {
		defer func() { _ = a.setAside(agent) }() // if this fails, removeHome tries again and reports it
	} else if a.folderFree("delete agent", agent.Name) == nil { // people look for it under the last name
		_ = a.root.Rename(agent.subtree(), path.Join(homes, string(agent.Name)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byName, agent.Name)
	m.gone = true
	a.revoke(m)
	a.remains[agent.User] = true
	a.Folders.Remove(agent.subtree())
	return agent, nil
}
