package control

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/sessions"
)

// jobService implements the service Jobs.
type jobService struct{ service }

// room returns the room of an agent for a caller, and the agent. The room is named by the
// agent's id, since its name may belong to another agent when it is used.
func (s service) room(ctx context.Context, ref string) (sessions.Room, agents.Agent, error) {
	agent, err := s.Agents.Get(ref)
	return s.Sessions.Room(string(agent.ID), callerOf(ctx).cause()), agent, err
}

// find returns the room of a job's agent, the agent, and the job's id.
func (s jobService) find(ctx context.Context, ref, job string) (room sessions.Room, agent agents.Agent, id config.JobID, err error) {
	if id, err = config.ParseJobID(job); err == nil {
		room, agent, err = s.room(ctx, ref)
	}
	return room, agent, id, err
}

func jobProto(agent agents.Agent, j engine.Job) *controlpb.Job {
	p := &controlpb.Job{
		Id: string(j.ID), Agent: string(agent.Name), Command: asTyped(j.Args), Label: j.Label, Running: j.Running, Pid: int32(j.PID),
		Started: moment(j.Started), Oom: j.OOM, Pids: j.Pids, Killed: j.Killed, Written: j.Written, Dropped: j.Dropped, LogFile: printable.Text(j.LogFile),
	}
	if !j.Running {
		p.Ended, p.Status, p.Signal = moment(j.Ended), int32(j.Status()), int32(j.Signal)
	}
	return p
}

// Start starts a job.
func (s jobService) Start(ctx context.Context, r *controlpb.StartJobRequest) (*controlpb.StartJobResponse, error) {
	room, agent, err := s.room(ctx, r.Agent)
	if err = cmp.Or(err, checkCommand(r.Env)); err != nil {
		return nil, err
	}
	cmd := engine.JobCommand{Args: r.Args, Env: r.Env, Dir: r.Dir, Label: r.Label}
	n := note{action: "job.start", agent: agent.Name, subject: r.Line, strict: true}
	switch {
	case r.Line != "":
		cmd.Args = loginShell(r.Line)
	case len(cmd.Args) == 0:
		return nil, fault.Newf(fault.InvalidArgs, "start job", string(agent.Name), "there is no command").Advise("Give args, or a line for a shell.")
	default:
		n.args = cmd.Args
	}
	job, err := answered(ctx, s.service, n, func() (job engine.Job, err error) {
		lent, err := s.lend(ctx, agent, r.Secrets)
		if err != nil {
			return engine.Job{}, err
		}
		cmd.Env = append(cmd.Env, lent...)
		_, err = s.undoable(ctx, agent, "job", s.typed(ctx, agent, r.Line, r.Args), func() (err error) {
			job, err = room.StartJob(ctx, cmd)
			return err
		})
		return job, err
	})
	return &controlpb.StartJobResponse{Job: jobProto(agent, job)}, err
}

// List lists the jobs of one agent, or of all.
func (s jobService) List(ctx context.Context, r *controlpb.ListJobsRequest) (*controlpb.ListJobsResponse, error) {
	list := &controlpb.ListJobsResponse{}
	err := s.Sessions.Each(r.Agent, func(agent agents.Agent, room sessions.Room) error {
		jobs, err := room.Jobs(ctx)
		for _, j := range jobs {
			list.Jobs = append(list.Jobs, jobProto(agent, j))
		}
		return err
	})
	return list, err
}

// Wait returns when a job has ended or the timeout is over.
func (s jobService) Wait(ctx context.Context, r *controlpb.WaitJobRequest) (*controlpb.WaitJobResponse, error) {
	room, agent, id, err := s.find(ctx, r.Agent, r.Id)
	if err != nil {
		return nil, err
	}
	wait := r.Timeout.AsDuration()
	if r.Timeout != nil && wait <= 0 {
		job, err := room.Job(ctx, id)
		return &controlpb.WaitJobResponse{Job: jobProto(agent, job)}, err
	}
	job, err := room.WaitJob(ctx, id, wait)
	return &controlpb.WaitJobResponse{Job: jobProto(agent, job)}, err
}

// Kill ends a job.
func (s jobService) Kill(ctx context.Context, r *controlpb.KillJobRequest) (*controlpb.KillJobResponse, error) {
	room, agent, id, err := s.find(ctx, r.Agent, r.Id)
	if err != nil {
		return nil, err
	}
	n := note{action: "job.kill", agent: agent.Name, subject: string(id)}
	if r.Kill {
		n.subject += " with SIGKILL"
	}
	job, err := answered(ctx, s.service, n, func() (engine.Job, error) { return room.KillJob(ctx, id, r.Kill) })
	return &controlpb.KillJobResponse{Job: jobProto(agent, job)}, err
}

// Tail sends the output of a job.
func (s jobService) Tail(ctx context.Context, r *controlpb.TailJobRequest, stream *connect.ServerStream[controlpb.TailJobResponse]) error {
	room, agent, id, err := s.find(ctx, r.Agent, r.Id)
	if err != nil {
		return err
	}
	tail := sessions.Tail{Offset: r.Offset, FromEnd: min(r.FromEnd, chunk), Follow: r.Follow}
	job, err := room.FollowJob(ctx, id, tail, func(part sessions.Part) error {
		return stream.Send(&controlpb.TailJobResponse{Data: part.Data, Offset: part.Offset, Next: part.Next})
	})
	if err != nil || job.Running {
		return err
	}
	return stream.Send(&controlpb.TailJobResponse{Offset: job.Written, Next: job.Written, Job: jobProto(agent, job)})
}
