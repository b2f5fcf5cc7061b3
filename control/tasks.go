package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/services"
)

// taskService implements the service Tasks.
type taskService struct{ service }

func taskProto(t services.Task) *controlpb.Task {
	return &controlpb.Task{
		Id: string(t.ID), Agent: string(t.Name), Text: t.Text, Key: t.Key, Source: t.Source, Depth: uint32(t.Depth), State: string(t.State),
		Created: moment(t.Created), Until: moment(t.Until), Attempts: uint32(t.Attempts), Worker: t.Worker,
		Ended: moment(t.Ended), Result: t.Result,
	}
}

func taskResponse(t services.Task, err error) (*controlpb.TaskResponse, error) {
	return &controlpb.TaskResponse{Task: taskProto(t)}, err
}

// Dispatch queues a task.
func (s taskService) Dispatch(ctx context.Context, r *controlpb.DispatchTaskRequest) (*controlpb.TaskResponse, error) {
	return taskResponse(answeredFor(ctx, s.service, r.Agent, "task.dispatch", r.Key, func(agent agents.Agent) (services.Task, error) {
		return s.Tasks.Add(ctx, agent.ID, r.Text, r.Key, callerOf(ctx).client)
	}))
}

// List lists tasks.
func (s taskService) List(ctx context.Context, r *controlpb.ListTasksRequest, stream *connect.ServerStream[controlpb.ListTasksResponse]) error {
	agent, err := s.agentID(r.Agent)
	if err != nil {
		return err
	}
	return sendAll(stream, s.Tasks.List(ctx, agent, r.Open), func(t services.Task) *controlpb.ListTasksResponse {
		return &controlpb.ListTasksResponse{Task: taskProto(t)}
	})
}

// Show returns a task.
func (s taskService) Show(ctx context.Context, r *controlpb.ShowTaskRequest) (*controlpb.TaskResponse, error) {
	return taskResponse(s.Tasks.Get(ctx, bridge.TaskID(r.Id)))
}

// Cancel ends a task.
func (s taskService) Cancel(ctx context.Context, r *controlpb.CancelTaskRequest) (*controlpb.TaskResponse, error) {
	task, err := s.Tasks.Get(ctx, bridge.TaskID(r.Id))
	if err != nil {
		return nil, err
	}
	return taskResponse(answered(ctx, s.service, note{action: "task.cancel", subject: string(task.ID), agent: task.Name}, func() (services.Task, error) {
		return s.Tasks.Cancel(ctx, task.ID, callerOf(ctx).client)
	}))
}

// Lease leases a task to the client. It is not audited: the lease is an event, and the
// client's calls are audited.
func (s taskService) Lease(ctx context.Context, r *controlpb.LeaseTaskRequest) (*controlpb.LeaseTaskResponse, error) {
	agent, err := s.agentID(r.Agent)
	if err != nil {
		return nil, err
	}
	task, lease, ok, err := s.Tasks.Lease(ctx, agent, callerOf(ctx).client, r.Hold.AsDuration(), r.Wait.AsDuration())
	if err != nil || !ok {
		return &controlpb.LeaseTaskResponse{}, err
	}
	return &controlpb.LeaseTaskResponse{Task: taskProto(task), Lease: string(lease)}, nil
}

// Renew extends a lease.
func (s taskService) Renew(ctx context.Context, r *controlpb.RenewTaskRequest) (*controlpb.TaskResponse, error) {
	return taskResponse(s.Tasks.Renew(ctx, bridge.TaskID(r.Id), services.Lease(r.Lease), r.Hold.AsDuration()))
}

// Complete ends a task with its result.
func (s taskService) Complete(ctx context.Context, r *controlpb.CompleteTaskRequest) (*controlpb.TaskResponse, error) {
	return taskResponse(s.Tasks.Complete(ctx, bridge.TaskID(r.Id), services.Lease(r.Lease), r.Result))
}

// Fail ends a task, or one attempt, with the reason.
func (s taskService) Fail(ctx context.Context, r *controlpb.FailTaskRequest) (*controlpb.TaskResponse, error) {
	return taskResponse(s.Tasks.Fail(ctx, bridge.TaskID(r.Id), services.Lease(r.Lease), r.Reason, r.Retry))
}
