package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/doctor"
	"osaurus-sandbox/supervisor/machine"
)

// Status returns the status, from memory.
func (s service) Status(context.Context, *controlpb.StatusRequest) (*controlpb.StatusResponse, error) {
	return statusResponse(s.Sandbox.Status()), nil
}

func statusResponse(s machine.Status) *controlpb.StatusResponse {
	return &controlpb.StatusResponse{Status: statusProto(s)}
}

// WatchStatus sends the status, now and after each change, until the context ends.
func (s service) WatchStatus(ctx context.Context, _ *controlpb.WatchStatusRequest, stream *connect.ServerStream[controlpb.StatusResponse]) error {
	status := s.Sandbox.Status()
	for {
		if err := stream.Send(statusResponse(status)); err != nil {
			return err
		}
		var err error
		if status, err = s.Sandbox.Next(ctx, status.Revision); err != nil {
			return err
		}
	}
}

// operate runs an operation of the machine and audits it.
func (s service) operate(ctx context.Context, n note, do func(context.Context, machine.Cause) error) (*controlpb.StatusResponse, error) {
	err := s.audited(ctx, n, func() error { return do(ctx, callerOf(ctx).cause()) })
	return statusResponse(s.Sandbox.Status()), err
}

// Up starts the guest.
func (s service) Up(ctx context.Context, _ *controlpb.MachineRequest) (*controlpb.StatusResponse, error) {
	return s.operate(ctx, note{action: "machine.up"}, s.Sandbox.Start)
}

// Down powers the guest off.
func (s service) Down(ctx context.Context, _ *controlpb.MachineRequest) (*controlpb.StatusResponse, error) {
	return s.operate(ctx, note{action: "machine.down"}, s.Sandbox.Stop)
}

// Restart is Down and Up.
func (s service) Restart(ctx context.Context, _ *controlpb.MachineRequest) (*controlpb.StatusResponse, error) {
	return s.operate(ctx, note{action: "machine.restart"}, s.Sandbox.Restart)
}

// Reset replaces the data disk by an empty one.
func (s service) Reset(ctx context.Context, _ *controlpb.MachineRequest) (*controlpb.StatusResponse, error) {
	return s.operate(ctx, note{action: "machine.reset", strict: true}, s.Sandbox.Reset)
}

// Remove deletes disk and images.
func (s service) Remove(ctx context.Context, _ *controlpb.MachineRequest) (*controlpb.StatusResponse, error) {
	return s.operate(ctx, note{action: "machine.remove", strict: true}, s.Sandbox.Remove)
}

// Provision verifies and makes what a guest needs, and starts it.
func (s service) Provision(ctx context.Context, _ *controlpb.MachineRequest) (*controlpb.StatusResponse, error) {
	return s.operate(ctx, note{action: "machine.provision"}, s.Sandbox.Provision)
}

// Diagnose sends each check as it ends.
func (s service) Diagnose(ctx context.Context, r *controlpb.DiagnoseRequest, stream *connect.ServerStream[controlpb.DiagnoseResponse]) error {
	target, err := doctor.ParseTarget(r.Target)
	if err != nil {
		return err
	}
	return s.audited(ctx, note{action: "diagnose", subject: string(target), strict: true}, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for result := range doctor.Diagnose(ctx, s.Sandbox, s.Agents, target) {
			if err := stream.Send(&controlpb.DiagnoseResponse{
				Name: result.Name, Passed: result.Passed(), Did: result.Did, Found: printable.Text(result.Found()), Advice: printable.Text(result.Advice()), Took: span(result.Took),
			}); err != nil {
				return err
			}
		}
		return nil
	})
}
