package control

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
)

// agentService implements the service Agents.
type agentService struct{ service }

func (s agentService) proto(a agents.Agent) *controlpb.Agent {
	return &controlpb.Agent{
		Id: string(a.ID), Name: string(a.Name), User: string(a.User), Uid: a.UID,
		Home: a.Home(), Folder: s.Sandbox.Home().AgentHome(a.Folder), Created: timestamppb.New(a.Created),
		Settings: settingsProto(a.Settings, config.AgentKeys(), config.AgentEffectOf),
	}
}

// Create creates an agent.
func (s agentService) Create(ctx context.Context, r *controlpb.CreateAgentRequest) (*controlpb.CreateAgentResponse, error) {
	n := note{action: "agent.create", subject: strings.TrimSpace(commandLine([]string{r.Name}) + " " + assignments(r.Settings)), strict: true}
	made, err := answered(ctx, s.service, n, func() (agents.Agent, error) {
		return s.Agents.Create(ctx, agents.New{Name: r.Name, ID: r.Id, Settings: r.Settings}, callerOf(ctx).cause())
	})
	return &controlpb.CreateAgentResponse{Agent: s.proto(made)}, err
}

// List lists all agents except for the one that Diagnose creates.
func (s agentService) List(context.Context, *controlpb.ListAgentsRequest) (*controlpb.ListAgentsResponse, error) {
	answer := &controlpb.ListAgentsResponse{}
	for _, agent := range s.Agents.List() {
		if agent.Name != agents.Diagnostic {
			answer.Agents = append(answer.Agents, s.proto(agent))
		}
	}
	return answer, nil
}

// Show returns an agent.
func (s agentService) Show(_ context.Context, r *controlpb.ShowAgentRequest) (*controlpb.ShowAgentResponse, error) {
	agent, err := s.Agents.Get(r.Agent)
	return &controlpb.ShowAgentResponse{Agent: s.proto(agent)}, err
}

// Rename changes an agent's name.
func (s agentService) Rename(ctx context.Context, r *controlpb.RenameAgentRequest) (*controlpb.RenameAgentResponse, error) {
	agent, err := answeredFor(ctx, s.service, r.Agent, "agent.rename", r.Name, func(meant agents.Agent) (agents.Agent, error) {
		return s.Agents.Rename(ctx, string(meant.ID), r.Name, callerOf(ctx).cause())
	})
	return &controlpb.RenameAgentResponse{Agent: s.proto(agent)}, err
}

// Delete deletes an agent and cancels its prompts.
func (s agentService) Delete(ctx context.Context, r *controlpb.DeleteAgentRequest) (*controlpb.DeleteAgentResponse, error) {
	var also []string
	if r.Workspace {
		also = append(also, "with its workspace")
	}
	if r.Secrets {
		also = append(also, "with its secrets")
	}
	answer := &controlpb.DeleteAgentResponse{}
	return answer, s.onRecord(ctx, r.Agent, "agent.delete", strings.Join(also, " and "), func(agent agents.Agent) (err error) {
		answer.Pending, err = s.Agents.Delete(ctx, string(agent.ID), r.Workspace, callerOf(ctx).cause())
		if s.Agents.Has(agent.ID) {
			return err
		}
		s.Lines.Forget(agent.ID)
		s.Checkpoints.Forget(agent.ID)
		s.Prompts.Forget(agent.ID)
		s.Flows.Forget(agent.ID)
		s.Policies.EndSession(agent.ID)
		defer s.Vault.Forget(agent.ID)
		if !r.Secrets {
			return err
		}
		left, cancel := context.WithTimeout(context.WithoutCancel(ctx), secretsLimit) // the caller cannot repeat it
		defer cancel()
		n, failed := s.Vault.DeleteAll(left, agent.ID)
		answer.SecretsDeleted = uint32(n)
		return errors.Join(err, failed)
	})
}

// Set changes an agent's settings, all or none.
func (s agentService) Set(ctx context.Context, r *controlpb.SetAgentRequest) (*controlpb.SetAgentResponse, error) {
	var changed []string
	var agent agents.Agent
	err := s.onRecord(ctx, r.Agent, "agent.set", assignments(r.Settings), func(meant agents.Agent) (err error) {
		if changed, err = s.Agents.Set(ctx, string(meant.ID), r.Settings, callerOf(ctx).cause()); err == nil {
			agent, err = s.Agents.Get(string(meant.ID))
		}
		return err
	})
	return &controlpb.SetAgentResponse{Changed: settingsProto(agent.Settings, changed, config.AgentEffectOf)}, err
}

// Reset gives an agent an empty layer.
func (s agentService) Reset(ctx context.Context, r *controlpb.ResetAgentRequest) (*controlpb.ResetAgentResponse, error) {
	err := s.onRecord(ctx, r.Agent, "agent.reset", "", func(agent agents.Agent) error {
		return s.Agents.Reset(ctx, string(agent.ID), callerOf(ctx).cause())
	})
	return &controlpb.ResetAgentResponse{}, err
}

// Usage returns what one agent uses of the guest, or all that List lists.
func (s agentService) Usage(ctx context.Context, r *controlpb.AgentUsageRequest) (*controlpb.AgentUsageResponse, error) {
	list, running, err := s.Agents.Usage(ctx, r.Agent)
	if err != nil {
		return nil, err
	}
	answer := &controlpb.AgentUsageResponse{Running: running, Time: timestamppb.Now()}
	if m := s.Sandbox.Status().Machine; m != nil && running {
		answer.Cpus, answer.Memory = uint32(m.CPUs), uint64(m.Memory)
	}
	for _, u := range list {
		if r.Agent == "" && u.Agent.Name == agents.Diagnostic {
			continue
		}
		answer.Agents = append(answer.Agents, &controlpb.AgentUsage{
			Agent: string(u.Agent.Name), Cpu: durationpb.New(u.CPU), Memory: u.Memory, MemoryPeak: u.MemoryPeak, MemoryLimit: u.Limits.Memory,
			Processes: u.PIDs, ProcessesLimit: u.Limits.PIDs, Disk: u.Disk, DiskFiles: u.DiskFiles,
			Received: u.Received, Sent: u.Sent, OomKills: u.OOMKills, Since: moment(u.Made),
		})
	}
	return answer, nil
}

// Processes lists processes of agents.
func (s agentService) Processes(ctx context.Context, r *controlpb.AgentProcessesRequest) (*controlpb.AgentProcessesResponse, error) {
	list, more, err := s.Agents.Processes(ctx, r.Agent)
	return &controlpb.AgentProcessesResponse{Truncated: more, Processes: protos(list, processProto)}, err
}

func processProto(p agents.Process) *controlpb.AgentProcess {
	return &controlpb.AgentProcess{
		Agent: string(p.Agent.Name), Pid: p.PID, Parent: p.PPID, Command: p.Command, State: p.State,
		Cpu: durationpb.New(p.CPU), Memory: p.Resident, Started: moment(p.Started),
	}
}

// Exec runs one command as an agent.
func (s agentService) Exec(ctx context.Context, stream *execStream) (err error) {
	start, err := receiveStart(stream, true)
	if err != nil {
		return err
	}
	agent, err := s.Agents.Get(start.Agent)
	if err != nil {
		return err
	}
	n := note{action: "exec", subject: start.Line, agent: agent.Name, detail: start.Tenant, strict: true}
	if start.Line == "" {
		n.args = start.Args
	}
	if start.Root {
		n.action = "exec.room-root"
	}
	call := s.begin(ctx, agent, "exec", s.typed(ctx, agent, start.Line, start.Args))
	defer func() { call.End(string(audit.OutcomeOf(err))) }()
	run := func(ctx context.Context, cmd engine.Command) (engine.Process, error) {
		lent, err := s.lend(ctx, agent, start.Secrets)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, lent...)
		p, err := s.Agents.Room(string(agent.ID)).Exec(ctx, cmd) // by id: the name may be another agent's by now
		if err != nil {
			return nil, err
		}
		return recorded{p, call}, nil
	}
	return s.exec(ctx, n, start, stream, run)
}
